// Events: the events of one process: their handles, and the calls that record them, ask for them
// and wait for them. A resource of the process's thread.
#pragma once

#include <cstdint>

#include "gpu/cuda/driver.h"
#include "gpu/forward_ring/calls.h"
#include "gpu/forward_server/answers.h"
#include "gpu/forward_server/client_quotas.h"
#include "gpu/forward_server/completions.h"
#include "gpu/forward_server/handles.h"
#include "gpu/forward_server/shared_event.h"
#include "gpu/forward_server/streams.h"

namespace lambent::forward_server {

class Events {
 public:
  using Call = forward_ring::Call;

  // All outlive it.
  Events(const cuda::Driver& driver, Quota& quota, Streams& streams, Completions& completions,
         Answers& answers)
      : driver_(driver),
        quota_(quota),
        streams_(streams),
        completions_(completions),
        answers_(answers) {}
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  // False if the call is not one about events.
  bool handle(const Call& call);
  // Null if there is none of this number.
  const SharedEvent* find(uint64_t number);
  // A graph that has one of them in a node keeps it.
  void destroy_all_of(uint64_t context);

 private:
  struct Entry {
    SharedEvent event;
    uint64_t context = 0;
  };
  CUresult create(const Call& call, uint64_t* number);
  CUresult destroy(uint64_t number);
  CUresult record(const Call& call);
  CUresult wait(const Call& call);
  void query(const Call& call);
  void synchronize(const Call& call);
  void elapsed_time(const Call& call);

  const cuda::Driver& driver_;
  Quota& quota_;
  Streams& streams_;
  Completions& completions_;
  Answers& answers_;
  HandleTable<Entry> table_{&quota_};
};

}  // namespace lambent::forward_server
