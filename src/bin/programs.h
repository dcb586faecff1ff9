// The verbs of lambent that are programs of their own, which lie beside it. Used by lambent's main.
#pragma once

#include <string_view>

namespace lambent::bin {

struct Program {
  std::string_view verb;
  std::string_view program;
};

constexpr Program kPrograms[] = {{"serve", "lambent-worker"}, {"simulate", "lambent-simulator"},
                                 {"sweep", "lambent-sweep"},  {"why", "lambent-why"},
                                 {"shim", "lambent-shim"},    {"slices", "lambent-slices"},
                                 {"bundle", "lambent-bundle"}};

}  // namespace lambent::bin
