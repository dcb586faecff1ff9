// A body of OpenAI's API, or a path behind "/v1/models/": what is found in a body is a name, and
// what is answered is JSON.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/check.h"
#include "core/domain/openai_models.h"
#include "edge/frontend/openai_call.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const char* type : {"application/json", "multipart/form-data; boundary=X"}) {
    const auto model = frontend::OpenaiModelFinder(type).look(text, true);
    frontend::OpenaiModelFinder finder(type);
    const auto half = finder.look(text.substr(0, size / 2), false);
    if (half.ok() && !half->has_value()) {
      const auto whole = finder.look(text, true);
      CHECK(whole.ok() == model.ok() && (!whole.ok() || *whole == *model), "the same in pieces");
    }
    if (model.ok()) {
      CHECK(model->has_value() && !(*model)->empty(), "a model has a name");
      CHECK(text.find("model") != std::string::npos || text.find('\\') != std::string::npos,
            "what is found is there");
      CHECK(half.ok(), "what begins a body that is right is not refused");
    } else {
      CHECK(model.error().code == ErrorCode::kInvalidArgument, "the client is to blame");
    }
    if (half.ok() && half->has_value() && !(*half)->empty()) {
      CHECK(model.ok() && **model == **half, "more of a body changes no model");
    }
  }
  const http::Response refusal = frontend::no_such_openai_model(text);
  CHECK(nlohmann::json::accept(refusal.body), "an error is JSON whatever it tells");
  const auto names = parse_openai_models(text);
  if (!names.ok()) return 0;
  const auto again = openai_models_text(*names);
  CHECK(again.ok() && *again == text, "a list is written as it was read");
  return 0;
}
