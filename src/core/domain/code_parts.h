// CodeParts: the pieces that a function's package consists of, by digest and size, so that a client
// can send only those that the worker lacks. A value.
#pragma once

#include <string>
#include <vector>

#include "core/base/units.h"

namespace lambent {

struct CodePart {
  std::string sha256;  // in base64, as a whole package's
  Bytes size;
  bool operator==(const CodePart&) const = default;
};

// One after the other they are the package, whose digest is `code_sha256`.
struct CodeParts {
  std::string code_sha256;
  std::vector<CodePart> parts;
};

}  // namespace lambent
