// FunctionTarget: which function an HTTP request is for, told by its path (/f/NAME/...,
// /t/TENANT/f/NAME/..., /v2/models/NAME/...) or by its host (NAME.DOMAIN). Pure; fuzzed; any
// thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/http/message.h"

namespace lambent::frontend {

// Of a request that comes by a path of a protocol's own, which the program gets whole. Errors have
// the protocol's form.
enum class Protocol {
  kNone,       // its path names a function
  kInference,  // the Open Inference Protocol
  kOpenai,     // OpenAI's API
};

// Of the Open Inference Protocol: a model's name follows, and perhaps its version after that.
inline constexpr std::string_view kModels = "/v2/models/";
inline constexpr std::string_view kModelVersions = "/versions/";

struct FunctionTarget {
  std::string name;    // perhaps of no function
  std::string target;  // what the program gets: begins with '/', query included
  std::string prefix;  // what was taken off the path: "/f/NAME"; empty: nothing was
  Protocol protocol = Protocol::kNone;
  // Of a model: the version that the path names, as it is written; empty: it names none.
  std::string model_version = {};
  // Whose function it is, where the path says so; empty: that of who sends it.
  std::string tenant = {};
  // Of a model: what of the protocol it is, where that is more than a request to the program.
  bool asks_readiness = false;
  bool loads_model = false;

  bool operator==(const FunctionTarget&) const = default;
};

// The label before `.domain` in a host as http::parse_authority gives it; empty if there is none,
// or if there are several.
std::string_view function_label(std::string_view host, std::string_view domain);

// Nothing if it is for the worker's own API. A host below `domain` is a function's for every path.
std::optional<FunctionTarget> function_target(const http::Request& request,
                                              std::string_view domain);

}  // namespace lambent::frontend
