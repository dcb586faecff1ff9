// One line of log into the file of LAMBENT_SHIM_LOG; nothing at all if that is unset.
// Any thread. Never on the path of a successful call.
#pragma once

namespace lambent::shim {

[[gnu::format(printf, 1, 2)]] void log_line(const char* format, ...);

}  // namespace lambent::shim
