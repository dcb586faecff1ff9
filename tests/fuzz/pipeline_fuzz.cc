// Definitions of pipelines come in packages that anyone may upload, profiles from files: whatever
// is accepted survives a round trip.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "decide/pipeline/pipeline_json.h"
#include "decide/pipeline/profile_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent::pipeline;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // A definition, a line of "---", and a profile of it; or one of them alone.
  const size_t line = text.find("\n---\n");
  const auto definition = parse_pipeline(text.substr(0, line));
  if (definition.ok()) {
    const auto again = parse_pipeline(to_json(*definition));
    if (!again.ok() || !(*again == *definition)) abort();
  }
  const Dag dag = definition.ok() ? definition->dag : Dag{.components = {{.name = "deblur"}}};
  const auto profile = parse_profile(line == text.npos ? text : text.substr(line + 5), dag);
  if (profile.ok()) {
    const auto again = parse_profile(to_json(*profile, dag), dag);
    if (!again.ok() || !(*again == *profile)) abort();
  }
  return 0;
}
