#include "decide/dispatch/log_hash.h"

namespace lambent::dispatch {

void LogHash::add(const Event& event, Instant now) {
  std::visit(
      [&]<typename Kind>(const Kind& e) {
        Group group(*this, event.index());
        group.word(word_of(now));
        Kind::fields(e, group);
        group.end();
      },
      event);
}

}  // namespace lambent::dispatch
