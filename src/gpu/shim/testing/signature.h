// How a function takes its arguments, as a word: "i4 p8 s64" for an int, a pointer and a structure
// of 64 bytes. Two declarations with the same word are called alike.
#pragma once

#include <string>
#include <type_traits>

namespace lambent::shim {

template <typename Argument>
std::string signature_of_argument() {
  const char* kind = std::is_pointer_v<Argument>                                ? "p"
                     : std::is_floating_point_v<Argument>                       ? "f"
                     : std::is_integral_v<Argument> || std::is_enum_v<Argument> ? "i"
                                                                                : "s";
  return kind + std::to_string(sizeof(Argument)) + " ";
}

template <typename Result, typename... Argument>
std::string signature_of(Result (*)(Argument...)) {
  return (std::string() + ... + signature_of_argument<Argument>());
}

}  // namespace lambent::shim
