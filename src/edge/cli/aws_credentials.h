// The user's own files of AWS (~/.aws/credentials, ~/.aws/config), as far as keys and a region
// stand in them. Pure; any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace lambent::cli {

// The settings of [SECTION], by their names in lower case; empty: there is no such section. Lines
// that make no sense are passed over, as boto3 does with those of other tools.
std::map<std::string, std::string> aws_section(std::string_view text, std::string_view section);

}  // namespace lambent::cli
