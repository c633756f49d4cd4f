"""A language model of some 330,000 random numbers, in the form that mlx-lm loads: tests of mlx-lm
use it, because nothing may be fetched. The same numbers each time.

Its tokens are single printable characters, so that a text shows its tokens. It never generates the
end of a text, nor a space, which mlx-lm strips at the start of a text: every answer has the maximum
length.
"""

import json
import math

import mlx.core as mx

# A kind of model that mlx-lm can both shard and pipeline. The sharded sizes, and the layers, are divisible by
# 8.
KIND = "qwen2"
WIDTH, HEADS, LAYERS, HIDDEN = 64, 8, 8, 128
END, SPACE = 0, 1
# Byte-level BPE writes a space like this.
CHARACTERS = ["<end>", "Ġ"] + [chr(code) for code in range(ord("!"), ord("~") + 1)]
TEMPLATE = ("{% for message in messages %}{{ message['role'][0] }}:{{ message['content'] }};{% endfor %}"
            "{% if add_generation_prompt %}a:{% endif %}")


def make(folder):
    folder.mkdir(parents=True)
    write_model(folder)
    write_tokenizer(folder)
    return folder


def write_model(folder):
    config = {
        "model_type": KIND, "hidden_size": WIDTH, "num_hidden_layers": LAYERS,
        "intermediate_size": HIDDEN, "num_attention_heads": HEADS, "num_key_value_heads": HEADS,
        "vocab_size": len(CHARACTERS), "rms_norm_eps": 1e-6, "tie_word_embeddings": False,
        "eos_token_id": END,
    }
    write(folder / "config.json", config)
    weights = weights_of_the_model()
    mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})
    write(folder / "model.safetensors.index.json",
          {"metadata": {}, "weight_map": dict.fromkeys(weights, "model.safetensors")})


def weights_of_the_model():
    keys = iter(mx.random.split(mx.random.key(25), 64 * (LAYERS + 1)))

    def normal(*shape):
        # Large enough that earlier tokens influence the next.
        return mx.random.normal(shape, key=next(keys)) * (2 / math.sqrt(shape[-1]))

    weights = {"model.embed_tokens.weight": normal(len(CHARACTERS), WIDTH),
               "model.norm.weight": mx.ones(WIDTH)}
    for number in range(LAYERS):
        layer = f"model.layers.{number}"
        for name in ("q_proj", "k_proj", "v_proj"):
            weights[f"{layer}.self_attn.{name}.weight"] = normal(WIDTH, WIDTH)
            weights[f"{layer}.self_attn.{name}.bias"] = normal(WIDTH)
        weights[f"{layer}.self_attn.o_proj.weight"] = normal(WIDTH, WIDTH)
        weights[f"{layer}.mlp.gate_proj.weight"] = normal(HIDDEN, WIDTH)
        weights[f"{layer}.mlp.up_proj.weight"] = normal(HIDDEN, WIDTH)
        weights[f"{layer}.mlp.down_proj.weight"] = normal(WIDTH, HIDDEN)
        weights[f"{layer}.input_layernorm.weight"] = mx.ones(WIDTH)
        weights[f"{layer}.post_attention_layernorm.weight"] = mx.ones(WIDTH)
    head = normal(len(CHARACTERS), WIDTH)
    head[[END, SPACE]] = 0  # One of the 94 other numbers is above.
    weights["lm_head.weight"] = head
    mx.eval(weights)
    return weights


def write_tokenizer(folder):
    write(folder / "tokenizer.json", {
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
        "added_tokens": [{"id": END, "content": "<end>", "special": True, "single_word": False,
                          "lstrip": False, "rstrip": False, "normalized": False}],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                          "use_regex": False},
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
        "model": {"type": "BPE", "vocab": {character: i for i, character in enumerate(CHARACTERS)},
                  "merges": []},
    })
    write(folder / "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<end>", "pad_token": "<end>",
        "unk_token": "<end>", "chat_template": TEMPLATE, "clean_up_tokenization_spaces": False,
    })


def write(path, value):
    path.write_text(json.dumps(value), encoding="utf-8")
