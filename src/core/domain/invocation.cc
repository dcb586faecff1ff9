#include "core/domain/invocation.h"

namespace lambent {

std::string_view name_of(StartClass start) {
  switch (start) {
    case StartClass::kCold:
      return "cold";
    case StartClass::kGpuCold:
      return "gpu_cold";
    case StartClass::kWarm:
      return "warm";
  }
  return "warm";
}

std::string_view name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::kSucceeded:
      return "succeeded";
    case Outcome::kFunctionError:
      return "function_error";
    case Outcome::kRejected:
      return "rejected";
  }
  return "rejected";
}

}  // namespace lambent
