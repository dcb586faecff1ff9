#include "decide/dispatch/options.h"

namespace lambent::dispatch {

void archive(StateArchive& archive, DispatchOptions& options) {
  scheduling::archive(archive, options.fleet);
  archive.field(options.host_concurrency);
  archive.field(options.host_sandboxes);
  archive.field(options.queued_per_function);
  archive.field(options.queued_invocations);
  archive.field(options.queued_synchronous);
  archive.field(options.queue_wait);
  archive.field(options.longest_wait);
  archive.field(options.init_timeout);
  archive.field(options.keep_alive);
  archive.field(options.stop_timeout);
  archive.field(options.start_retries);
  archive.field(options.restarts);
  archive.field(options.move_timeout);
  scheduling::archive(archive, options.hybrid);
}

}  // namespace lambent::dispatch
