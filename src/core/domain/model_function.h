// Functions that serve a model: HTTP functions whose program is ours, lambent-model-server
// (docs/guides/models.md). Free functions; any thread.
#pragma once

#include <string_view>

#include "core/domain/function.h"

namespace lambent {

// The first word of their command.
constexpr std::string_view kModelServer = "lambent-model-server";

inline bool serves_model(const FunctionSpec& spec) {
  const std::string_view command = spec.handler;
  return spec.kind == FunctionKind::kHttp && command.substr(0, command.find(' ')) == kModelServer;
}

}  // namespace lambent
