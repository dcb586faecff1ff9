// Which of two programs that do not understand each other is to be upgraded. Pure.
#pragma once

#include <string>
#include <string_view>

namespace lambent {

// Negative: the program of the first version is the older one; zero: neither is.
int compare_versions(std::string_view one, std::string_view other);
// Of something that another node says and this one cannot read: "this node has version 0.2.0 and
// node 'b' version 0.3.0: upgrade this node". Empty: they have the same, or that of one is not
// known.
std::string version_advice(std::string_view own, std::string_view node, std::string_view version);

}  // namespace lambent
