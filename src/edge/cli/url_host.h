// UrlHost: where a URL of http or https leads, told from its text. Foreign; pure, any thread.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"

namespace lambent::cli {

// "https", "example.com", "443". The host of an address of IPv6 is without brackets.
struct UrlHost {
  std::string scheme;
  std::string host;
  std::string port;
  std::string user = {};  // "me:secret@"; empty: there is none

  bool is_same_place(const UrlHost& other) const {
    return host == other.host && port == other.port;
  }
  bool operator==(const UrlHost&) const = default;
};
// INVALID_ARGUMENT: one that programs might read in different ways.
Result<UrlHost> host_of_url(std::string_view url);

}  // namespace lambent::cli
