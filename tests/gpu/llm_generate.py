"""A language model of transformers that writes a few words, greedily. Prints what it wrote. The model's folder: LAMBENT_GPU_MODEL."""
import os
import sys

try:
    import torch
    import transformers
except ImportError as error:
    sys.exit(str(error))
folder = os.environ.get("LAMBENT_GPU_MODEL") or sys.exit("LAMBENT_GPU_MODEL names no model")
tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
model = transformers.AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float16).cuda()
words = tokenizer("The scheduler of a GPU has to", return_tensors="pt").to("cuda")
for _ in range(4):
    written = model.generate(**words, max_new_tokens=64, do_sample=False)
print(tokenizer.decode(written[0]))
