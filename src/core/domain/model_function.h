// Functions that serve a model: HTTP functions whose program is ours, lambent-model-server
// (docs/guides/models.md). Free functions; any thread.
#pragma once

#include <string_view>

#include "core/domain/function.h"

namespace lambent {

// The first word of their command.
constexpr std::string_view kModelServer = "lambent-model-server";

// The alias whose versions serve requests that name no version; without it the function does.
constexpr std::string_view kServingAlias = "serving";
// The version of a model that has none.
constexpr std::string_view kOnlyVersion = "1";
// Tells the program of a model which versions there are: "1,2,5". Not sent where there are none.
constexpr std::string_view kModelVersionsHeader = "X-Lambent-Model-Versions";

inline bool serves_model(const FunctionSpec& spec) {
  const std::string_view command = spec.handler;
  return spec.kind == FunctionKind::kHttp && command.substr(0, command.find(' ')) == kModelServer;
}

// What a function is to its user: "model", or else the name of its kind.
inline std::string_view shown_kind(const FunctionSpec& spec) {
  return serves_model(spec) ? "model" : name_of(spec.kind);
}

}  // namespace lambent
