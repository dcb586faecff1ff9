#include "gpu/executor/importer.h"

#include <utility>

namespace lambent::executor {

Result<std::unique_ptr<Importer>> Importer::create(loop::EventLoop& loop,
                                                   const cuda::Driver& driver, int ordinal) {
  ASSIGN_OR_RETURN(auto stream, cuda::Stream::create(driver));
  return std::unique_ptr<Importer>(new Importer(loop, driver, ordinal, std::move(stream)));
}

Importer::~Importer() {
  // Nothing may be copied from what is unmapped; at the end the wait does not matter.
  for (const auto& [number, copy] : copies_) {
    (void)stream_.synchronize();
    (void)copy->addresses.unmap(copy->addresses.base(), copy->mapped);
  }
}

Result<void> Importer::copy(const OwnedFd& memory, Bytes shared, CUdeviceptr to, Bytes size,
                            std::function<void(Result<void>)> on_end) {
  if (size > shared) {
    return Error{ErrorCode::kInvalidArgument, to_string(size) + " are not in " + to_string(shared)};
  }
  ASSIGN_OR_RETURN(auto addresses, cuda::ReservedAddresses::reserve(driver_, ordinal_, shared));
  {
    ASSIGN_OR_RETURN(const auto physical, cuda::PhysicalMemory::import(driver_, memory, shared));
    RETURN_IF_ERROR(addresses.map(addresses.base(), physical));
  }
  const CUdeviceptr from = addresses.base();
  const uint64_t number = ++last_number_;
  auto owned =
      std::make_unique<Copy>(Copy{std::move(addresses), shared, std::move(on_end), nullptr});
  Copy& copy = *owned;
  copy.on_device = [this, number, alive = std::weak_ptr(alive_)](CUresult result) {
    loop_.post([this, number, result, alive] {
      if (!alive.expired()) ended(number, result);
    });
  };
  const auto queue = [&]() -> Result<void> {
    RETURN_IF_ERROR(stream_.copy_on_device(to, from, size));
    const auto on_answer = [](CUstream, CUresult result, void* data) {
      static_cast<Copy*>(data)->on_device(result);
    };
    return stream_.call_back(on_answer, &copy);
  };
  auto queued = queue();
  if (!queued.ok()) {
    (void)stream_.synchronize();
    (void)copy.addresses.unmap(from, shared);
    return queued;
  }
  copies_.emplace(number, std::move(owned));
  return {};
}

void Importer::ended(uint64_t number, CUresult result) {
  const auto found = copies_.find(number);
  const std::unique_ptr<Copy> copy = std::move(found->second);
  copies_.erase(found);
  const auto unmapped = copy->addresses.unmap(copy->addresses.base(), copy->mapped);
  const auto copied = driver_.check(result, "a copy of what was shared");
  copy->on_end(copied.ok() ? unmapped : copied);
}

}  // namespace lambent::executor
