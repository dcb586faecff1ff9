// A function of a paper's catalogue: holds a stated amount of device memory, takes a stated time to
// start, and occupies the device for a stated time in every invocation, or, asked with
// {"copy_mib": N}, copies so much to the device and back and tells how fast. All times are
// modelled: divided by LAMBENT_TIME_SCALE where they are slept through, left to the driver where
// they are not. Run without a GPU (LAMBENT_DEVICE=cpu) it sleeps through the time that a processor
// of the paper's machine would take: it uses none of ours.
#include <cmath>
#include <cstdlib>
#include <ctime>

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

struct PaperFunction {
  std::unique_ptr<Gpu> gpu;
  lambent::cuda::DeviceBuffer memory;
  CUfunction occupy;
  double warm_ms;

  Outcome invoke(std::string_view event) {
    if (const size_t mib = copy_mib_of(event); mib > 0) return copy(mib << 20);
    const auto nanoseconds = static_cast<unsigned long long>(warm_ms * 1e6);
    auto done = gpu->launch(occupy, {1}, {1}, 0, nanoseconds);
    if (done.ok()) done = gpu->synchronize();
    if (!done.ok()) {
      return HandlerError{done.error().message, std::string(name_of(done.error().code))};
    }
    return Response{"{\"modelled_ms\":" + std::to_string(warm_ms) + "}"};
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
  const char* device = std::getenv("LAMBENT_DEVICE");
  if (device != nullptr && std::string_view(device) == "cpu") {
    return make_handler_without_gpu(time_scale);
  }
  const char* root = std::getenv("LAMBDA_TASK_ROOT");
  ASSIGN_OR_RETURN(auto gpu, Gpu::open(std::string(root == nullptr ? "." : root) + "/bundles"));
  ASSIGN_OR_RETURN(const CUfunction occupy, gpu->kernel("occupy", "occupy"));
  const auto bytes = static_cast<uint64_t>(memory_mib * 1024 * 1024);
  ASSIGN_OR_RETURN(auto memory, gpu->buffer(Bytes(std::max<uint64_t>(bytes, 1))));
  // What the driver took to open the device is a part of the start.
  sleep_ms(init_ms / time_scale - (now_ms() - begin_ms));
  // A std::function can be copied, so what it holds must be shared.
  const auto function = std::make_shared<PaperFunction>(
      PaperFunction{std::move(gpu), std::move(memory), occupy, warm_ms});
  return Handler(
      [function](const Invocation& invocation) { return function->invoke(invocation.payload); });
}

}  // namespace

int main() { return lambent::runtime_client::run(make_handler); }
