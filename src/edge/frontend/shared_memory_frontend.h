// SharedMemoryFrontend: Triton's extension system_shared_memory: registers a tenant's regions, and
// makes of inference requests whose tensors lie there such that have them in their bodies, before a
// node or an engine is chosen for them; outputs are put there when the answer comes. On the loop
// thread.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/units.h"
#include "core/domain/access_service.h"
#include "core/http/server.h"
#include "edge/frontend/body_collector.h"
#include "edge/frontend/caller.h"
#include "edge/frontend/shared_memory_owner.h"
#include "edge/inference/shared_memory_regions.h"
#include "node/objects/object_store.h"

namespace lambent::frontend {

// What one request brings, and all that are not answered yet have in this process, of tensors.
struct SharedMemoryLimits {
  Bytes of_request = Bytes::mib(512);
  Bytes at_work = Bytes::gib(1);
};

// "/v2/systemsharedmemory/..." and "/v2/cudasharedmemory/...".
bool is_shared_memory_path(std::string_view path);

class SharedMemoryFrontend {
 public:
  // All outlive it. `offload` is for copies that take longer than the loop may.
  struct Dependencies {
    const AccessService& access;
    BodyCollector& bodies;
    objects::Disk offload;
    inference::SharedMemoryRegions* regions;  // null: there are none
  };
  // Without owners nothing is registered. `most` is another in tests.
  SharedMemoryFrontend(std::vector<SharedMemoryOwner> owners, Dependencies dependencies,
                       SharedMemoryLimits most = {})
      : owners_(std::move(owners)), uses_(std::move(dependencies)), most_(most) {}

  bool is_on() const { return uses_.regions != nullptr && !owners_.empty(); }
  // Of a path with is_shared_memory_path().
  void handle(const Caller& caller, const http::Request& request, http::Responder responder);

  using Next = std::function<void(http::Request, http::Responder)>;
  // Whether it may name the tenant's regions: an inference, by a tenant that has some, whose body
  // has a size of at most limits::kEventBody.
  bool may_name_regions(TenantId tenant, const http::Request& request) const;
  // Gives `next` the request as others take it, and puts its outputs in their places before the
  // client is answered; or answers it. `is_whole`: its body came with it, and has to go on so.
  void expand(TenantId tenant, http::Request request, http::Responder responder, bool is_whole,
              Next next);

 private:
  struct Transfer;

  http::Response answer_to(const Caller& caller, const http::Request& request);
  Result<std::string> perform(TenantId tenant, const std::string& verb, const std::string& name,
                              const std::string& body);
  std::vector<uid_t> owners_of(TenantId tenant) const;
  void read(const std::shared_ptr<Transfer>& transfer);
  // The regions that it names. NOT_FOUND, INVALID_ARGUMENT.
  Result<void> find_regions(Transfer& transfer) const;
  void gather(const std::shared_ptr<Transfer>& transfer);
  void pass_on(const std::shared_ptr<Transfer>& transfer);
  void put_outputs(const std::shared_ptr<Transfer>& transfer, http::Responder client,
                   Result<http::Response> answer);

  const std::vector<SharedMemoryOwner> owners_;
  const Dependencies uses_;
  const SharedMemoryLimits most_;
  // Bytes of tensors that transfers hold, each until its client is answered. Shared with them: they
  // may end after this.
  const std::shared_ptr<size_t> at_work_ = std::make_shared<size_t>(0);
};

}  // namespace lambent::frontend
