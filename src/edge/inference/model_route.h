// What a request below /v2 asks of one model. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/result.h"
#include "core/http/message.h"
#include "edge/inference/infer_response.h"

namespace lambent::inference {

enum class Route : uint8_t {
  kServer,
  kLive,
  kServerReady,
  kMetadata,
  kReady,
  kConfig,
  kStats,
  kInfer,
  kLoad
};

// v2, v2/health/X, v2/models/stats, v2/models/NAME[/versions/V][/X],
// v2/repository/models/NAME/load. NOT_FOUND for other paths, models and versions.
Result<Route> route_of(const ModelIdentity& model, std::string_view path);
// The answer to a request whose method the route does not take; nothing: it does.
std::optional<http::Response> refusal_of_method(Route route, std::string_view method);

}  // namespace lambent::inference
