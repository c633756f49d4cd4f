"""mlx-lm generates with a tiny random model, sharded as its own code does; a case is KIND-HOW, such as
llama-tensor or deepseek_v2-pipeline. A step is one token."""

import mlx.core as mx
from mlx.utils import tree_map
from mlx_lm.generate import generate_step
from program import main, world

SIZES = {"hidden_size": 256, "num_hidden_layers": 8, "intermediate_size": 512, "num_attention_heads": 8,
         "num_key_value_heads": 8, "vocab_size": 512, "rms_norm_eps": 1e-6}
OF_KIND = {
    "llama": {},
    "deepseek_v2": {"moe_intermediate_size": 128, "n_routed_experts": 4, "n_shared_experts": 1,
                    "num_experts_per_tok": 2, "first_k_dense_replace": 1, "kv_lora_rank": 64,
                    "q_lora_rank": None, "qk_rope_head_dim": 16, "qk_nope_head_dim": 32, "v_head_dim": 32,
                    "max_position_embeddings": 2048},
}


def model_of(kind, how):
    module = __import__(f"mlx_lm.models.{kind}", fromlist=["Model", "ModelArgs"])
    mx.random.seed(1)
    model = module.Model(module.ModelArgs.from_dict({"model_type": kind, **SIZES, **OF_KIND[kind]}))
    model.update(tree_map(lambda array: array.astype(mx.float32), model.parameters()))
    mx.eval(model.parameters())
    if world is not None:
        model.shard(world) if how == "tensor" else model.model.pipeline(world)
        mx.eval(model.parameters())
    return model


def generator(case):
    kind, _, how = case.rpartition("-")
    generated = generate_step(mx.arange(1, 9), model_of(kind, how), max_tokens=-1)
    tokens = []
    return lambda: tokens.append(next(generated)[0]), lambda: tokens


main(generator)
