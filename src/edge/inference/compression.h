// Bodies that are compressed with gzip or deflate (zlib), both ways. Free functions; any thread.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/units.h"
#include "core/http/message.h"

namespace lambent::inference {

// `coding`: the value of Content-Encoding. INVALID_ARGUMENT if it is another coding or the bytes
// are broken; RESOURCE_EXHAUSTED if more than `most` comes out.
Result<std::string> decompress(std::string_view body, std::string_view coding, Bytes most);

// Compresses the response's body where `accepted`, the request's Accept-Encoding, is one coding and
// no list: a client that lists several, as most do unasked, would wait longer for the same bytes.
void compress(http::Response& response, std::string_view accepted);

}  // namespace lambent::inference
