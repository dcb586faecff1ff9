"""PyTorch: a convolutional network trained for a number of steps, then inference by a captured graph. Prints a digest of losses and answers."""
import hashlib
import os
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
try:
    import torch
except ImportError:
    print("PyTorch is not installed", file=sys.stderr)
    sys.exit(77)

STEPS, REPLAYS = 200, 1000


def main():
    if not torch.cuda.is_available():
        sys.exit("PyTorch sees no GPU")
    torch.manual_seed(7)
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 64, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(64, 128, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.Linear(128 * 16 * 16, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    images = torch.randn(256, 3, 32, 32).cuda()
    labels = torch.randint(0, 10, (256,)).cuda()
    digest = hashlib.sha256()
    for step in range(STEPS + 1):
        if step == 1:  # the first one loads code
            torch.cuda.synchronize()
            start = time.monotonic()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        digest.update(loss.detach().cpu().numpy().tobytes())
    torch.cuda.synchronize()
    steps_a_second = STEPS / (time.monotonic() - start)
    model.eval()
    with torch.no_grad():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            model(images)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            answers = model(images)
        torch.cuda.synchronize()
        start = time.monotonic()
        for _ in range(REPLAYS):
            graph.replay()
        torch.cuda.synchronize()
        replays_a_second = REPLAYS / (time.monotonic() - start)
    digest.update(answers.cpu().numpy().tobytes())
    free, total = torch.cuda.mem_get_info()
    print(digest.hexdigest())
    print("free %d of %d bytes; %.1f replays of a graph a second" % (free, total, replays_a_second), file=sys.stderr)
    print("rate %.2f training steps a second" % steps_a_second, file=sys.stderr)


main()
