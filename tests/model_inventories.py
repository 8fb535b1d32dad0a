"""Small hand-built inventories: a Llama from eight numbers, and the same with routed experts."""

from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.model import AttentionCache, Layer, ModelSpec, Role, Tensor


def matrix(name, rows, columns, role, *, linear=True, count=1):
    return Tensor(
        name=f"{name}.weight", shape=(rows, columns), role=role, linear=linear, count=count
    )


def norm(name, size):
    return Tensor(name=f"{name}.weight", shape=(size,), role=Role.NORM)


def llama_spec(
    *,
    vocab=32000,
    hidden=4096,
    layers=32,
    heads=32,
    kv_heads=32,
    inner=11008,
    tied=False,
    dtype=DType.FP16,
    **extra,
):
    """A Llama-style ``ModelSpec``; the defaults are Llama-2-7B and Vicuna-7B."""
    head_dim = hidden // heads
    layer = Layer(
        tensors=(
            *_attention(hidden, heads, kv_heads),
            matrix("mlp.gate_proj", inner, hidden, Role.MLP),
            matrix("mlp.up_proj", inner, hidden, Role.MLP),
            matrix("mlp.down_proj", hidden, inner, Role.MLP),
        ),
        caches=(_cache(kv_heads, head_dim),),
        num_heads=heads,
        head_dim=head_dim,
        mlp_width=inner,
    )
    return _model([layer], [0] * layers, vocab, hidden, tied, dtype, **extra)


def moe_spec(
    *,
    vocab=1024,
    hidden=256,
    layers=4,
    heads=4,
    kv_heads=2,
    inner=128,
    experts=8,
    chosen=2,
    dense_layers=1,
    dtype=DType.BF16,
    **extra,
):
    """A Qwen3-MoE-style ``ModelSpec`` whose first layers are dense."""
    head_dim = hidden // heads
    common = {"caches": (_cache(kv_heads, head_dim),), "num_heads": heads, "head_dim": head_dim}
    dense = Layer(
        tensors=(
            *_attention(hidden, heads, kv_heads),
            matrix("mlp.gate_proj", inner, hidden, Role.MLP),
            matrix("mlp.up_proj", inner, hidden, Role.MLP),
            matrix("mlp.down_proj", hidden, inner, Role.MLP),
        ),
        **common,
    )
    routed = Layer(
        tensors=(
            *_attention(hidden, heads, kv_heads),
            matrix("mlp.gate", experts, hidden, Role.ROUTER, linear=False),
            matrix("mlp.experts.*.gate_proj", inner, hidden, Role.EXPERT, count=experts),
            matrix("mlp.experts.*.up_proj", inner, hidden, Role.EXPERT, count=experts),
            matrix("mlp.experts.*.down_proj", hidden, inner, Role.EXPERT, count=experts),
        ),
        num_experts=experts,
        experts_per_token=chosen,
        **common,
    )
    order = [0] * dense_layers + [1] * (layers - dense_layers)
    return _model([dense, routed], order, vocab, hidden, False, dtype, **extra)


def _attention(hidden, heads, kv_heads):
    head_dim = hidden // heads
    return (
        matrix("self_attn.q_proj", heads * head_dim, hidden, Role.ATTENTION),
        matrix("self_attn.k_proj", kv_heads * head_dim, hidden, Role.ATTENTION),
        matrix("self_attn.v_proj", kv_heads * head_dim, hidden, Role.ATTENTION),
        matrix("self_attn.o_proj", hidden, heads * head_dim, Role.ATTENTION),
        norm("input_layernorm", hidden),
        norm("post_attention_layernorm", hidden),
    )


def _cache(kv_heads, head_dim):
    return AttentionCache(num_kv_heads=kv_heads, key_head_dim=head_dim, value_head_dim=head_dim)


def _model(layers, order, vocab, hidden, tied, dtype, **extra):
    head = () if tied else (matrix("lm_head", vocab, hidden, Role.LM_HEAD),)
    return ModelSpec(
        name="test",
        model_type="llama",
        hidden_size=hidden,
        vocab_size=vocab,
        dtype=dtype,
        tie_word_embeddings=tied,
        outer=(
            matrix("model.embed_tokens", vocab, hidden, Role.EMBEDDING, linear=False),
            norm("model.norm", hidden),
            *head,
        ),
        layers=tuple(layers),
        layer_order=tuple(order),
        **extra,
    )
