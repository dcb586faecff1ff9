#include "node/worker/object_exports.h"

#include <algorithm>
#include <utility>

namespace lambent::worker {
namespace {

// An executor that is asked answers between two requests; one that does not is not waited for.
constexpr Duration kMostWait = milliseconds(20);

}  // namespace

// On the importer's own device before another, and of others who used it last.
const ExecutorKey* ObjectExports::nearest(const objects::ObjectKey& object,
                                          const ExecutorKey& importer) const {
  const ObjectPlaces::Copy* best = nullptr;
  const auto* copies = places_.find(object);
  if (copies == nullptr) return nullptr;
  const auto rank = [&](const ObjectPlaces::Copy& copy) {
    return std::pair(copy.holder.device == importer.device, copy.last_use);
  };
  for (const ObjectPlaces::Copy& copy : *copies) {
    const bool can_share = copy.held > Bytes(0) && !copy.told && copy.holder != importer &&
                           supervisor_.ready(copy.holder) &&
                           supervisor_.reaches(importer, copy.holder.device);
    if (can_share && (best == nullptr || rank(copy) > rank(*best))) best = &copy;
  }
  return best != nullptr ? &best->holder : nullptr;
}

// Requests that are too late count for nothing: their exports go back unseen.
bool ObjectExports::has_export(const ExecutorKey& importer, ObjectId object) const {
  const auto is_this = [&](const auto& each) {
    return each.importer == importer && each.object == object;
  };
  return std::ranges::any_of(out_, is_this) ||
         std::ranges::any_of(requests_,
                             [&](const Request& each) { return is_this(each) && each.done; });
}

bool ObjectExports::import(ObjectId object, const ExecutorKey& importer, Callback done) {
  const objects::ObjectKey key{importer.tenant, object};
  const ExecutorKey* exporter = nearest(key, importer);
  if (exporter == nullptr || has_export(importer, object)) return false;
  ask({0, object, *exporter, importer, false, std::move(done)});
  return true;
}

void ObjectExports::share(ObjectId object, const ExecutorKey& exporter, const ExecutorKey& importer,
                          Callback done) {
  if (has_export(importer, object)) return done(std::nullopt);
  ask({0, object, exporter, importer, true, std::move(done)});
}

void ObjectExports::ask(Request request) {
  const uint64_t number = ++last_request_;
  request.number = number;
  supervisor_.send(request.exporter, protocol::ShareObject{request.object});
  requests_.push_back(std::move(request));
  loop_.call_after(kMostWait, [this, number, alive = std::weak_ptr(alive_)] {
    if (alive.expired()) return;
    const auto late = std::find_if(requests_.begin(), requests_.end(),
                                   [number](const Request& each) { return each.number == number; });
    if (late == requests_.end() || !late->done) return;
    std::exchange(late->done, nullptr)(std::nullopt);
  });
}

void ObjectExports::shared(const ExecutorKey& exporter, ObjectId object,
                           Result<Export> object_export) {
  const auto asked = std::find_if(requests_.begin(), requests_.end(), [&](const Request& each) {
    return each.exporter == exporter && each.object == object;
  });
  if (asked == requests_.end()) return;
  Request request = std::move(*asked);
  requests_.erase(asked);
  if (!object_export.ok()) {
    // What does not lie there it will not have again by itself: the next one need not ask.
    if (object_export.error().code == ErrorCode::kNotFound) {
      places_.held({exporter.tenant, object}, exporter, Bytes(0));
    }
    if (request.done) request.done(std::nullopt);
    return;
  }
  const Out out{object, exporter, request.importer, request.moves,
                supervisor_.process_of(exporter)};
  count(out, true);
  if (!request.done || !object_export->memory.valid()) {
    give_back(out);
    if (request.done) request.done(std::nullopt);
    return;
  }
  out_.push_back(out);
  object_export->from = exporter.device;
  request.done(std::move(object_export).value());
}

void ObjectExports::ended(const ExecutorKey& importer, ObjectId object) {
  const auto found = std::find_if(out_.begin(), out_.end(), [&](const Out& each) {
    return each.importer == importer && each.object == object;
  });
  if (found == out_.end()) return;
  const Out out = *found;
  out_.erase(found);
  give_back(out);
  if (out.moves) on_moved_({importer.tenant, object}, out.exporter, importer);
}

void ObjectExports::give_back(const Out& object_export) {
  if (supervisor_.process_of(object_export.exporter) != object_export.process) return;
  count(object_export, false);
  supervisor_.send(object_export.exporter, protocol::ExportEnded{object_export.object});
  // What it was told to release may have stayed for this export.
  places_.may_release(object_export.exporter);
}

void ObjectExports::count(const Out& object_export, bool begins) {
  places_.shared({object_export.exporter.tenant, object_export.object}, object_export.exporter,
                 begins);
}

void ObjectExports::executor_ended(const ExecutorKey& key) {
  std::vector<Callback> unanswered;
  for (auto each = requests_.begin(); each != requests_.end();) {
    // What an importer asked for that is gone, it does not wait for; what moves must go elsewhere.
    if (each->importer == key) {
      if (each->done && each->moves) unanswered.push_back(std::move(each->done));
      each->done = nullptr;
    }
    if (each->exporter != key) {
      ++each;
      continue;
    }
    if (each->done) unanswered.push_back(std::move(each->done));
    each = requests_.erase(each);
  }
  std::vector<Out> moved;
  for (auto each = out_.begin(); each != out_.end();) {
    if (each->importer == key) {
      give_back(*each);
      if (each->moves) moved.push_back(*each);
    }
    // What was shared by one that is gone stays with who has it.
    each = each->importer == key || each->exporter == key ? out_.erase(each) : each + 1;
  }
  for (const Callback& done : unanswered) done(std::nullopt);
  for (const Out& out : moved) on_moved_({key.tenant, out.object}, out.exporter, key);
}

}  // namespace lambent::worker
