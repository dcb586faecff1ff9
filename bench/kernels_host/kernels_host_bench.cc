// kernels_host_bench: kernels with barriers as the emulated driver runs them, beside PoCL with the
// same algorithms. One thread each, taking turns; what counts is CPU time, so that others on the
// machine disturb little. Prints a table and, last, one line of JSON.
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "bench/kernels_host/opencl.h"
#include "kernels/run_kernel.h"

namespace lambent::bench {
namespace {

struct Case {
  std::string kernel;
  emulated_dim3 grid, block;
  uint32_t shared_bytes;
  int inputs;      // arrays of `floats` each, before the output
  size_t floats;   // of each input
  size_t results;  // floats of the output
  int size;        // a last argument, unless 0
  double waits;    // thread and barrier, in millions; 0: none
};

std::vector<Case> cases(bool quick) {
  const unsigned blocks = quick ? 4096 : 16384, side = quick ? 256 : 512;
  const size_t elements = size_t{blocks} * 256, cells = size_t{side} * side;
  const double millions = static_cast<double>(elements) / 1e6;
  const int length = static_cast<int>(side);
  const auto tiles = [&](unsigned tile) {
    return Case{"matmul_" + std::to_string(tile),
                {side / tile, side / tile, 1},
                {tile, tile, 1},
                0,
                2,
                cells,
                cells,
                length,
                2.0 * static_cast<double>(cells) / 1e6 * side / tile};
  };
  return {{"vector_add", {blocks, 1, 1}, {256, 1, 1}, 0, 2, elements, elements, 0, 0},
          tiles(16),
          tiles(32),
          {"reduce", {blocks, 1, 1}, {256, 1, 1}, 1024, 1, elements, blocks, 0, 9 * millions},
          {"scan", {blocks, 1, 1}, {256, 1, 1}, 0, 1, elements, elements, 0, 9 * millions},
          {"stencil", {blocks, 1, 1}, {256, 1, 1}, 0, 1, elements, elements, 0, 9 * millions}};
}

double cpu_ms() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

double measure_ms(const std::function<void()>& body) {
  const double begin = cpu_ms();
  body();
  return cpu_ms() - begin;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::string list(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) {
    char number[32];
    std::snprintf(number, sizeof number, "%s%.2f", text.empty() ? "" : ", ", value);
    text += number;
  }
  return "[" + text + "]";
}

struct Outcome {
  std::vector<double> ours_ms, pocl_ms;  // pocl_ms is empty where there is no PoCL
};

Outcome run_case(const Case& c, const emulated_kernel& kernel, OpenCl* opencl, int rounds) {
  std::vector<float> input(c.floats), output(c.results, -1.0f);
  for (size_t i = 0; i < input.size(); ++i) input[i] = static_cast<float>(i * 7 % 13) / 4;
  const float* input_pointer = input.data();
  float* output_pointer = output.data();
  int size = c.size;
  std::vector<void*> parameters(c.inputs, &input_pointer);
  parameters.push_back(&output_pointer);
  if (c.size != 0) parameters.push_back(&size);
  emulated_launch launch = {c.grid, c.block, c.shared_bytes};
  const auto ours = [&] {
    for (uint32_t y = 0; y < c.grid.y; ++y) {
      for (uint32_t x = 0; x < c.grid.x; ++x)
        kernel.run_block(&launch, {x, y, 0}, parameters.data());
    }
  };
  std::vector<OpenCl::Argument> arguments;
  OpenCl::Buffer in{}, out{};
  if (opencl != nullptr) {
    in = opencl->buffer(input.size() * 4, input.data());
    out = opencl->buffer(output.size() * 4, output.data());
    arguments.assign(c.inputs, {&in.handle, sizeof in.handle});
    arguments.push_back({&out.handle, sizeof out.handle});
    if (c.size != 0) arguments.push_back({&size, sizeof size});
  }
  const auto pocl = [&] {
    opencl->run(c.kernel, arguments, {size_t{c.grid.x} * c.block.x, size_t{c.grid.y} * c.block.y},
                {c.block.x, c.block.y});
  };

  Outcome outcome;
  for (int round = -1; round < rounds; ++round) {  // the first warms up
    const double ours_ms = measure_ms(ours);
    if (round >= 0) outcome.ours_ms.push_back(ours_ms);
    if (opencl == nullptr) continue;
    const double pocl_ms = measure_ms(pocl);
    if (round >= 0) outcome.pocl_ms.push_back(pocl_ms);
  }
  if (opencl != nullptr) {
    const std::vector<char> bytes = opencl->read(out);
    const auto* theirs = reinterpret_cast<const float*>(bytes.data());
    for (size_t i = 0; i < output.size(); ++i) {
      if (std::fabs(output[i] - theirs[i]) <= 1e-3f * (1.0f + std::fabs(theirs[i]))) continue;
      std::fprintf(stderr, "%s: element %zu is %g, with PoCL %g\n", c.kernel.c_str(), i,
                   double{output[i]}, double{theirs[i]});
      std::exit(1);
    }
  }
  return outcome;
}

int run(bool quick, const std::string& module_path) {
  setenv("POCL_MAX_PTHREAD_COUNT", "1", 1);
  setenv("POCL_AFFINITY", "0", 1);
  OpenCl opencl;
  std::string why_not;
  const bool has_opencl = opencl.open(&why_not);
  if (has_opencl) {
    std::ifstream file(YARDSTICK_SOURCE);
    opencl.build(std::string(std::istreambuf_iterator<char>(file), {}));
  } else {
    std::printf("without PoCL: %s\n", why_not.c_str());
  }
  const HostModule module(module_path);
  std::printf("%-12s %12s %12s %8s %14s\n", "kernel", "ours, ms", "PoCL, ms", "ratio",
              "ns per wait");
  std::string json;
  for (const Case& c : cases(quick)) {
    const Outcome outcome =
        run_case(c, module.kernel(c.kernel), has_opencl ? &opencl : nullptr, quick ? 3 : 7);
    const double ours = median(outcome.ours_ms);
    const double pocl = has_opencl ? median(outcome.pocl_ms) : 0;
    char pocl_text[32] = "null", ratio_text[32] = "null", wait_text[32] = "null";
    if (has_opencl) {
      std::snprintf(pocl_text, sizeof pocl_text, "%.2f", pocl);
      std::snprintf(ratio_text, sizeof ratio_text, "%.2f", ours / pocl);
    }
    if (c.waits > 0) std::snprintf(wait_text, sizeof wait_text, "%.1f", ours / c.waits);
    std::printf("%-12s %12.2f %12s %8s %14s\n", c.kernel.c_str(), ours, pocl_text, ratio_text,
                wait_text);
    std::fflush(stdout);
    json += (json.empty() ? "\"" : ", \"") + c.kernel +
            "\": {\"ours_cpu_ms\": " + std::to_string(ours) + ", \"pocl_cpu_ms\": " + pocl_text +
            ", \"ratio\": " + ratio_text + ", \"ns_per_wait\": " + wait_text +
            ", \"ours_all\": " + list(outcome.ours_ms) +
            ", \"pocl_all\": " + list(outcome.pocl_ms) + "}";
  }
  std::printf(
      "{\"bench\": \"kernels-host\", \"quick\": %s, \"pocl_device\": %s%s%s, "
      "\"kernels\": {%s}}\n",
      quick ? "true" : "false", has_opencl ? "\"" : "",
      has_opencl ? opencl.device().c_str() : "null", has_opencl ? "\"" : "", json.c_str());
  return 0;
}

}  // namespace
}  // namespace lambent::bench

int main(int argc, char** argv) {
  bool quick = false;
  std::string module = YARDSTICK_MODULE;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0) {
      quick = true;
    } else if (std::strncmp(argv[i], "--module=", 9) == 0) {
      module = argv[i] + 9;
    } else {
      std::fprintf(stderr, "usage: kernels_host_bench [--quick] [--module=FILE]\n");
      return 2;
    }
  }
  return lambent::bench::run(quick, module);
}
