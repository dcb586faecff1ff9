#include "edge/frontend/json_response.h"

#include <nlohmann/json.hpp>

#include "core/base/json_text.h"
#include "edge/frontend/json_text.h"

namespace lambent::frontend {

http::Response json_response(int status, const nlohmann::json& body) {
  http::Response response;
  response.status = status;
  response.headers.add("Content-Type", "application/json");
  response.body = json_text(body);
  return response;
}

}  // namespace lambent::frontend
