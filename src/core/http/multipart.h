// multipart/form-data (RFC 7578): several values in one body. Pure; the reader takes foreign bytes,
// any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace lambent::http {

// What the Content-Type of such a body begins with.
constexpr std::string_view kMultipartForm = "multipart/form-data";

struct Part {
  std::string name;
  std::string_view content;  // within the body
};

// More parts are refused.
constexpr size_t kMostParts = 16;

// Reads a body of the given Content-Type. INVALID_ARGUMENT for another type, and for a body that is
// not whole. Transfer encodings of parts are not known, and other fields of them are passed over.
Result<std::vector<Part>> parse_multipart(std::string_view content_type, std::string_view body);

// The content of the first part with the name, in a body of which this has come; nothing while it
// is not all there. INVALID_ARGUMENT for another type, for a body that is none of it, and once it
// has ended without that part.
Result<std::optional<std::string_view>> find_part(std::string_view content_type,
                                                  std::string_view beginning,
                                                  std::string_view name);

struct MultipartBody {
  std::string content_type;
  std::string body;
};
// `boundary` may be in no content; a random one is not.
MultipartBody make_multipart(const std::vector<Part>& parts, const std::string& boundary);

}  // namespace lambent::http
