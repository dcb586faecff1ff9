// A look over JSON before it is built: what a library would take in silence, or take very long
// over, is refused with its place. A pure function; used for files that people write.
#pragma once

#include <cstddef>
#include <string_view>

#include "core/base/result.h"

namespace lambent {

struct JsonSurvey {
  std::string_view subject;  // what it is called in errors: "the workflow"
  size_t most_depth = 32;    // lists and objects in each other
  // Of one object: the library looks for a key among an object's, one after the other.
  size_t most_keys = 256;
};

// INVALID_ARGUMENT, naming the place: it is no JSON, is nested deeper than `most_depth`, or an
// object has a key twice or more than `most_keys` of them.
Result<void> survey_json(std::string_view text, const JsonSurvey& survey);

// Whether lists and objects lie at most `most` deep in each other: one look over the text, for
// JSON of programs, which may be large. Text that is not JSON may have either answer.
bool json_nests_at_most(std::string_view text, size_t most);

}  // namespace lambent
