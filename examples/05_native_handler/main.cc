// A native handler. Event: {"kernel": "vector_add" | "matmul" | "fft" | "jacobi", "size": n}, and
// "check": true to compare with the CPU.
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "computations.h"
#include "edge/runtime_client/runtime_client.h"

namespace {

using lambent::Error;
using lambent::ErrorCode;
using lambent::Result;
using lambent::examples::Computations;
using lambent::examples::Computed;
using lambent::runtime_client::HandlerError;
using lambent::runtime_client::Outcome;
using nlohmann::json;

constexpr unsigned kMostSize = 1024;
constexpr unsigned kMostCount = 1u << 22;

bool is_power_of_two(unsigned n) { return n >= 2 && (n & (n - 1)) == 0; }

Result<Computed> compute(Computations& computations, const std::string& kernel, unsigned size,
                         bool check) {
  if (kernel == "vector_add" && size <= kMostCount) return computations.vector_add(size, check);
  if (kernel == "matmul" && size <= kMostSize) return computations.matmul(size, check);
  if (kernel == "jacobi" && size >= 3 && size <= kMostSize) return computations.jacobi(size, check);
  if (kernel == "fft" && is_power_of_two(size) && size <= kMostSize) {
    return computations.fft(size, check);
  }
  return Error{ErrorCode::kInvalidArgument,
               "no kernel '" + kernel +
                   "' of this size: there are vector_add, matmul, fft (a power "
                   "of two) and jacobi"};
}

bool close_to(const std::vector<float>& result, const std::vector<float>& expected) {
  if (result.size() != expected.size()) return false;
  for (size_t i = 0; i < result.size(); ++i) {
    if (!(std::abs(result[i] - expected[i]) <= 1e-3f * std::max(1.0f, std::abs(expected[i])))) {
      return false;
    }
  }
  return true;
}

Outcome answer(Computations& computations, std::string_view payload) {
  const json event = json::parse(payload, nullptr, false);
  if (!event.is_object()) return HandlerError{"the event must be a JSON object", "BadEvent"};
  try {
    const bool check = event.value("check", false);
    const auto kernel = event.value("kernel", std::string("vector_add"));
    const auto size = event.value("size", kernel == "vector_add" ? 65536u : 64u);
    const auto computed = size == 0 ? Error{ErrorCode::kInvalidArgument, "size must be positive"}
                                    : compute(computations, kernel, size, check);
    if (!computed.ok()) {
      return HandlerError{computed.error().message, std::string(name_of(computed.error().code))};
    }
    double sum = 0;
    for (const float value : computed->result) sum += value;
    json body = {{"kernel", kernel}, {"size", size}, {"sum", sum}};
    if (check) body["correct"] = close_to(computed->result, computed->expected);
    return lambent::runtime_client::Response{body.dump()};
  } catch (const json::exception& error) {  // a field of the wrong type
    return HandlerError{error.what(), "BadEvent"};
  }
}

}  // namespace

int main() {
  using lambent::runtime_client::Handler;
  return lambent::runtime_client::run([]() -> Result<Handler> {
    const char* root = std::getenv("LAMBDA_TASK_ROOT");
    ASSIGN_OR_RETURN(auto loaded,
                     Computations::load(std::string(root == nullptr ? "." : root) + "/bundles"));
    // A std::function can be copied, so what it holds must be shared.
    const std::shared_ptr<Computations> computations = std::move(loaded);
    return Handler([computations](const lambent::runtime_client::Invocation& invocation) {
      return answer(*computations, invocation.payload);
    });
  });
}
