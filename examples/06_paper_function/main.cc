// A function of a paper's catalogue: holds a stated amount of device memory, takes a stated time to
// start, and occupies the device for a stated time in every invocation, or, asked with
// {"copy_mib": N}, copies so much to the device and back and tells how fast. With
// LAMBENT_PAPER_PHASES it works on the host, copies and runs kernels by turns instead. All times
// are modelled: divided by LAMBENT_TIME_SCALE where they are slept through, left to the driver
// where they are not. Run without a GPU (LAMBENT_DEVICE=cpu) it sleeps through the time that a
// processor of the paper's machine would take: it uses none of ours.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <optional>

#include "edge/runtime_client/runtime_client.h"
#include "examples/native_gpu.h"

namespace {

using lambent::Bytes;
using lambent::Error;
using lambent::ErrorCode;
using lambent::Result;
using lambent::examples::Gpu;
using lambent::runtime_client::Handler;
using lambent::runtime_client::HandlerError;
using lambent::runtime_client::Invocation;
using lambent::runtime_client::Outcome;
using lambent::runtime_client::Response;

Result<double> number_from(const char* name, double otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr) return otherwise;
  char* end = nullptr;
  const double number = std::strtod(text, &end);
  if (end == text || *end != '\0' || !std::isfinite(number) || number < 0 || number > 1e9) {
    return Error{ErrorCode::kInvalidArgument,
                 std::string(name) + " is '" + text + "', not a number from 0 to 1e9"};
  }
  return number;
}

double now_ms() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

void sleep_ms(double amount) {
  if (amount <= 0) return;
  timespec left = {};
  left.tv_sec = static_cast<time_t>(amount / 1000);
  left.tv_nsec = static_cast<long>((amount - static_cast<double>(left.tv_sec) * 1000) * 1e6);
  while (nanosleep(&left, &left) != 0) {
  }
}

// N of an event {"copy_mib": N}; 0 for any other.
size_t copy_mib_of(std::string_view event) {
  constexpr std::string_view kKey = "\"copy_mib\":";
  const size_t at = event.find(kKey);
  if (at == std::string_view::npos) return 0;
  return std::min<size_t>(
      std::strtoul(std::string(event.substr(at + kKey.size())).c_str(), nullptr, 10), 4096);
}

// What an invocation does in each of its rounds, one after the other.
struct Phases {
  double host_ms = 0;
  double copy_in_mib = 0;
  double kernel_ms = 0;
  double copy_out_mib = 0;
  double rounds = 1;
  double occupancy = 1;  // of the device's multiprocessors, by its kernels
};

// Of LAMBENT_PAPER_PHASES: these six, with commas between them, of a whole invocation; nothing
// where it is not set.
Result<std::optional<Phases>> phases_from_environment() {
  const char* text = std::getenv("LAMBENT_PAPER_PHASES");
  if (text == nullptr) return std::optional<Phases>();
  Phases all;
  int end = 0;
  const int read =
      std::sscanf(text, "%lf,%lf,%lf,%lf,%lf,%lf%n", &all.host_ms, &all.copy_in_mib, &all.kernel_ms,
                  &all.copy_out_mib, &all.rounds, &all.occupancy, &end);
  const auto within = [](double value, double least, double most) {
    return value >= least && value <= most;  // NaN is not
  };
  if (read != 6 || text[end] != '\0' || !within(all.host_ms, 0, 1e9) ||
      !within(all.copy_in_mib, 0, 1e6) || !within(all.kernel_ms, 0, 1e9) ||
      !within(all.copy_out_mib, 0, 1e6) || !within(all.rounds, 1, 1e4) ||
      !within(all.occupancy, 0, 1)) {
    return Error{ErrorCode::kInvalidArgument,
                 "LAMBENT_PAPER_PHASES is '" + std::string(text) +
                     "', not host_ms,copy_in_mib,kernel_ms,copy_out_mib,rounds,occupancy"};
  }
  all.rounds = std::floor(all.rounds);
  for (double* part : {&all.host_ms, &all.copy_in_mib, &all.kernel_ms, &all.copy_out_mib}) {
    *part /= all.rounds;
  }
  return std::optional(all);
}

// Of the device, and of the host, that copies go between; a longer copy is several.
constexpr size_t kCopyBytes = 16 << 20;

struct PaperFunction {
  std::unique_ptr<Gpu> gpu;
  lambent::cuda::DeviceBuffer memory;
  CUfunction occupy;
  double warm_ms;
  double time_scale;
  std::optional<Phases> phases;
  std::optional<lambent::cuda::PinnedBuffer> host;
  unsigned multiprocessors;

  Outcome invoke(std::string_view event) {
    if (const size_t mib = copy_mib_of(event); mib > 0) return copy(mib << 20);
    const auto nanoseconds = static_cast<unsigned long long>(warm_ms * 1e6);
    auto done = phases ? run_phases() : gpu->launch(occupy, {1}, {1}, 0, nanoseconds);
    if (done.ok()) done = gpu->synchronize();
    if (!done.ok()) {
      return HandlerError{done.error().message, std::string(name_of(done.error().code))};
    }
    return Response{"{\"modelled_ms\":" + std::to_string(warm_ms) + "}"};
  }

  Result<void> run_phases() {
    const auto nanoseconds = static_cast<unsigned long long>(phases->kernel_ms * 1e6);
    // Blocks of which two are on a multiprocessor at once.
    constexpr unsigned kBlocksEach = 2, kThreads = 1024;
    const double blocks = std::ceil(kBlocksEach * multiprocessors * phases->occupancy);
    for (double round = 0; round < phases->rounds; ++round) {
      sleep_ms(phases->host_ms / time_scale);
      RETURN_IF_ERROR(move(phases->copy_in_mib, lambent::cuda::CopyDirection::kToDevice));
      if (nanoseconds > 0) {
        RETURN_IF_ERROR(gpu->launch(occupy, {std::max(1U, static_cast<unsigned>(blocks))},
                                    {kThreads}, 0, nanoseconds));
      }
      RETURN_IF_ERROR(move(phases->copy_out_mib, lambent::cuda::CopyDirection::kToHost));
      RETURN_IF_ERROR(gpu->synchronize());
    }
    return {};
  }

  Result<void> move(double mib, lambent::cuda::CopyDirection direction) {
    auto left = static_cast<uint64_t>(mib * 1024 * 1024);
    const uint64_t most = std::min(memory.size().count, host->size().count);
    while (left > 0) {
      const uint64_t now = std::min(left, most);
      RETURN_IF_ERROR(gpu->copy(memory, *host, direction, Bytes(now)));
      left -= now;
    }
    return {};
  }

  Outcome copy(size_t bytes) {
    const auto speeds = gpu->copy_speeds(Bytes(bytes));
    if (!speeds.ok()) {
      return HandlerError{speeds.error().message, std::string(name_of(speeds.error().code))};
    }
    return Response{"{\"host_to_device_gb_per_s\":" + std::to_string(speeds->first * 1e-9) +
                    ",\"device_to_host_gb_per_s\":" + std::to_string(speeds->second * 1e-9) + "}"};
  }
};

Result<Handler> make_handler_without_gpu(double time_scale) {
  ASSIGN_OR_RETURN(const double init_ms, number_from("LAMBENT_PAPER_CPU_INIT_MS", 0));
  ASSIGN_OR_RETURN(const double warm_ms, number_from("LAMBENT_PAPER_CPU_WARM_MS", 1000));
  sleep_ms(init_ms / time_scale);
  return Handler([warm_ms, time_scale](const Invocation&) -> Outcome {
    sleep_ms(warm_ms / time_scale);
    return Response{"{\"modelled_ms\":" + std::to_string(warm_ms) + "}"};
  });
}

Result<Handler> make_handler() {
  const double begin_ms = now_ms();
  ASSIGN_OR_RETURN(const double memory_mib, number_from("LAMBENT_PAPER_MEMORY_MIB", 0));
  ASSIGN_OR_RETURN(const double init_ms, number_from("LAMBENT_PAPER_INIT_MS", 0));
  ASSIGN_OR_RETURN(const double warm_ms, number_from("LAMBENT_PAPER_WARM_MS", 100));
  ASSIGN_OR_RETURN(const double time_scale, number_from("LAMBENT_TIME_SCALE", 1));
  if (time_scale == 0) return Error{ErrorCode::kInvalidArgument, "LAMBENT_TIME_SCALE is 0"};
  ASSIGN_OR_RETURN(const auto phases, phases_from_environment());
  const char* device = std::getenv("LAMBENT_DEVICE");
  if (device != nullptr && std::string_view(device) == "cpu") {
    return make_handler_without_gpu(time_scale);
  }
  const char* root = std::getenv("LAMBDA_TASK_ROOT");
  ASSIGN_OR_RETURN(auto gpu, Gpu::open(std::string(root == nullptr ? "." : root) + "/bundles"));
  ASSIGN_OR_RETURN(const CUfunction occupy, gpu->kernel("occupy", "occupy"));
  const auto bytes = static_cast<uint64_t>(memory_mib * 1024 * 1024);
  ASSIGN_OR_RETURN(auto memory, gpu->buffer(Bytes(std::max<uint64_t>(bytes, 1))));
  std::optional<lambent::cuda::PinnedBuffer> host;
  if (phases) {
    ASSIGN_OR_RETURN(auto pinned, gpu->pinned(Bytes(kCopyBytes)));
    host.emplace(std::move(pinned));
  }
  ASSIGN_OR_RETURN(const unsigned multiprocessors, gpu->multiprocessors());
  // What the driver took to open the device is a part of the start.
  sleep_ms(init_ms / time_scale - (now_ms() - begin_ms));
  // A std::function can be copied, so what it holds must be shared.
  const auto function = std::make_shared<PaperFunction>(
      PaperFunction{std::move(gpu), std::move(memory), occupy, warm_ms, time_scale, phases,
                    std::move(host), multiprocessors});
  return Handler(
      [function](const Invocation& invocation) { return function->invoke(invocation.payload); });
}

}  // namespace

int main() { return lambent::runtime_client::run(make_handler); }
