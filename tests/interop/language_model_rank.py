"""One rank of a program as mlx-lm's documentation has it: a model that is sharded, or is a stage of a
pipeline, generates, and prints how well it predicts. Nothing here knows mlxcomm; run alone it is what the
ranks are compared with.

Arguments: the model's folder; "tensor" or "pipeline"; how many tokens an answer has. Prints as JSON the
answers' tokens and texts, the perplexity, and how often the model was called: with a prompt, for a token,
and without a cache.
"""

import json
import sys

import mlx.core as mx
from mlx_lm import load, stream_generate
from mlx_lm.perplexity import eval_ppl
from mlx_lm.utils import sharded_load

folder, how, length = sys.argv[1], sys.argv[2], int(sys.argv[3])
QUESTIONS = ["how are you today?", "(3+4)*5"]

world = mx.distributed.init()
if world.size() == 1:
    model, tokenizer = load(folder)
else:
    model, tokenizer = sharded_load(folder, *((world, None) if how == "pipeline" else (None, world)))

calls = {"prompt": 0, "token": 0, "whole": 0}
original = type(model).__call__


def counted(self, inputs, cache=None, **rest):
    calls["whole" if cache is None else "token" if inputs.shape[1] == 1 else "prompt"] += 1
    return original(self, inputs, cache, **rest)


type(model).__call__ = counted
# Before an answer, because that leaves a step in progress on its own stream, and ranks whose streams call
# operations at the same time have no order.
data = mx.random.randint(2, model.args.vocab_size, (8, 33), key=mx.random.key(1))
perplexity, _ = eval_ppl(model, data, batch_size=4)
tokens, texts = [], []
for question in QUESTIONS:
    messages = [{"role": "user", "content": question}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
    responses = list(stream_generate(model, tokenizer, prompt, max_tokens=length))
    tokens.append([response.token for response in responses])
    texts.append("".join(response.text for response in responses))
print(json.dumps({"tokens": tokens, "texts": texts, "perplexity": perplexity, "calls": calls}))
