#include "gpu/forward_server/streams.h"

namespace lambent::forward_server {
namespace {

using forward_ring::CallCode;

constexpr size_t kMostContexts = 64;

}  // namespace

Streams::~Streams() {
  table_.for_each([this](uint64_t, Entry& entry) { release(entry); });
  for (Entry& entry : leaving_) release(entry);
}

void Streams::release(Entry& entry) {
  quota_.give_back();
  driver_->stream_destroy(entry.stream);
  if (entry.mark != nullptr) driver_->event_destroy(entry.mark);
  entry.part = nullptr;  // after its stream
}

bool Streams::handle(const Call& call) {
  uint64_t context = 0, stream = 0;
  switch (static_cast<CallCode>(call.code)) {
    case CallCode::kCreateContext: {
      const CUresult result = create_context(&context, &stream);
      answers_.answer(call, result, {context, stream});
      return true;
    }
    case CallCode::kSynchronizeContext:
      synchronize_context(call);
      return true;
    case CallCode::kCreateStream: {
      const CUresult result = create_stream(call, &stream);
      answers_.answer(call, result, {stream});
      return true;
    }
    case CallCode::kDestroyStream:
      answers_.note(destroy(call.arguments[0]));
      return true;
    case CallCode::kSynchronizeStream:
      synchronize(call);
      return true;
    case CallCode::kQueryStream:
      query(call);
      return true;
    default:
      return false;
  }
}

CUresult Streams::create_context(uint64_t* context, uint64_t* stream) {
  if (contexts_.size() == kMostContexts) return CUDA_ERROR_OUT_OF_MEMORY;
  *context = ++last_context_;
  const CUresult result = create(*context, 0, CU_STREAM_DEFAULT, 0, stream);
  if (result == CUDA_SUCCESS) contexts_[*context] = *stream;
  return result;
}

std::vector<uint64_t> Streams::contexts() const {
  std::vector<uint64_t> found;
  for (const auto& [context, stream] : contexts_) found.push_back(context);
  return found;
}

void Streams::destroy_context(uint64_t context) {
  table_.for_each([&](uint64_t number, Entry& entry) {
    if (entry.context != context) return;
    leaving_.push_back(entry);
    table_.erase(number);
  });
  release_idle();
  contexts_.erase(context);
}

void Streams::synchronize_context(const Call& call) {
  if (!has_context(call.arguments[0])) return answers_.answer(call, CUDA_ERROR_INVALID_CONTEXT);
  std::vector<CUstream> busy;
  for (CUstream stream : all_of(call.arguments[0])) {
    const CUresult result = driver_->stream_query(stream);
    if (result == CUDA_ERROR_NOT_READY) {
      busy.push_back(stream);
    } else if (result != CUDA_SUCCESS) {
      return answers_.answer(call, result);
    }
  }
  if (busy.empty()) return answers_.answer_with_earlier(call, CUDA_SUCCESS);
  completions_.when_all_done(
      busy, [this, call](CUresult result) { answers_.answer_with_earlier(call, result); });
}

CUresult Streams::create_stream(const Call& call, uint64_t* number) {
  const auto context = contexts_.find(call.arguments[0]);
  if (context == contexts_.end()) return CUDA_ERROR_INVALID_CONTEXT;
  const auto flags = static_cast<uint32_t>(call.arguments[1]);
  const auto priority = static_cast<int>(static_cast<uint32_t>(call.arguments[2]));
  return create(context->first, context->second, flags, priority, number);
}

// To ask a default stream is to ask those that it has to wait for.
CUresult Streams::stream_to_ask(uint64_t number, CUstream* stream) {
  const Entry* entry = table_.find(number);
  if (entry == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (entry->default_stream == number) return use(number, stream);
  *stream = entry->stream;
  return CUDA_SUCCESS;
}

void Streams::synchronize(const Call& call) {
  CUstream stream = nullptr;
  if (const CUresult found = stream_to_ask(call.arguments[0], &stream)) {
    return answers_.answer(call, found);
  }
  const CUresult result = driver_->stream_query(stream);
  if (result != CUDA_ERROR_NOT_READY) return answers_.answer_with_earlier(call, result);
  completions_.when_done(stream,
                         [this, call](CUresult done) { answers_.answer_with_earlier(call, done); });
}

void Streams::query(const Call& call) {
  CUstream stream = nullptr;
  if (const CUresult found = stream_to_ask(call.arguments[0], &stream)) {
    return answers_.answer(call, found);
  }
  answers_.answer_with_earlier(call, driver_->stream_query(stream));
}

// Makes a stream where the share has it. To the driver all are non-blocking: its own default stream
// is that of all clients.
CUresult Streams::place(Entry* entry) {
  entry->part = share_.part(&entry->version);
  if (entry->part == nullptr) {
    return driver_->stream_create_with_priority(&entry->stream, CU_STREAM_NON_BLOCKING,
                                                entry->priority);
  }
  return driver_->green_ctx_stream_create(&entry->stream, entry->part->get(),
                                          CU_STREAM_NON_BLOCKING, entry->priority);
}

// What is queued on the old stream comes before all that is queued on the new one.
CUresult Streams::move(Entry& entry) {
  Entry moved = entry;
  CUresult result = place(&moved);
  if (result != CUDA_SUCCESS) return result;
  result = driver_->event_record(entry.mark, entry.stream);
  if (result == CUDA_SUCCESS) result = driver_->stream_wait_event(moved.stream, entry.mark, 0);
  if (result != CUDA_SUCCESS) {
    driver_->stream_destroy(moved.stream);
    return result;
  }
  quota_.take_anyway();  // until the old one is idle
  leaving_.push_back(entry);
  leaving_.back().mark = nullptr;
  entry = moved;
  return CUDA_SUCCESS;
}

uint64_t Streams::work_of(uint64_t number) {
  const Entry* entry = table_.find(number);
  return entry == nullptr ? 0 : entry->work;
}

bool Streams::has_share(uint64_t number) {
  const Entry* entry = table_.find(number);
  return entry != nullptr && entry->part != nullptr;
}

CUresult Streams::create(uint64_t context, uint64_t default_stream, unsigned flags, int priority,
                         uint64_t* number) {
  *number = 0;
  if ((flags & ~unsigned{CU_STREAM_NON_BLOCKING}) != 0) return CUDA_ERROR_INVALID_VALUE;
  release_idle();
  if (!quota_.take()) return CUDA_ERROR_OUT_OF_MEMORY;
  Entry entry;
  entry.context = context;
  entry.blocking = (flags & CU_STREAM_NON_BLOCKING) == 0;
  entry.priority = priority;
  CUresult result = place(&entry);
  if (result != CUDA_SUCCESS) {
    quota_.give_back();
    return result;
  }
  result = driver_->event_create(&entry.mark, CU_EVENT_DISABLE_TIMING);
  if (result != CUDA_SUCCESS) {
    release(entry);
    return result;
  }
  *number = table_.add(entry);
  table_.find(*number)->default_stream = default_stream == 0 ? *number : default_stream;
  return CUDA_SUCCESS;
}

CUresult Streams::destroy(uint64_t number) {
  Entry* entry = table_.find(number);
  if (entry == nullptr || entry->default_stream == number) return CUDA_ERROR_INVALID_HANDLE;
  // What the default stream has not waited for yet, it cannot any more.
  Entry* of_context = table_.find(entry->default_stream);
  CUresult result = CUDA_SUCCESS;
  if (entry->blocking && entry->work != entry->joined_by_default && of_context != nullptr) {
    result = wait(*of_context, *entry);
  }
  leaving_.push_back(*entry);
  table_.erase(number);
  release_idle();
  return result;
}

// The driver's stream would be gone at once, with nothing left to ask whether its work is over.
void Streams::release_idle() {
  std::erase_if(leaving_, [this](Entry& entry) {
    if (driver_->stream_query(entry.stream) == CUDA_ERROR_NOT_READY) return false;
    release(entry);
    return true;
  });
}

CUresult Streams::wait(Entry& waiting, Entry& for_this) {
  const CUresult result = driver_->event_record(for_this.mark, for_this.stream);
  if (result != CUDA_SUCCESS) return result;
  return driver_->stream_wait_event(waiting.stream, for_this.mark, 0);
}

CUresult Streams::use(uint64_t number, CUstream* stream) {
  *stream = nullptr;
  Entry* entry = table_.find(number);
  if (entry == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  CUresult result = CUDA_SUCCESS;
  if (entry->version != share_.version()) result = move(*entry);
  if (result != CUDA_SUCCESS) return result;
  if (entry->default_stream == number) {
    table_.for_each([&](uint64_t each, Entry& other) {
      if (each == number || other.default_stream != number || !other.blocking) return;
      if (other.work == other.joined_by_default || result != CUDA_SUCCESS) return;
      result = wait(*entry, other);
      other.joined_by_default = other.work;
    });
  } else if (entry->blocking) {
    Entry* of_context = table_.find(entry->default_stream);
    if (of_context != nullptr && of_context->work != entry->saw_default) {
      result = wait(*entry, *of_context);
      entry->saw_default = of_context->work;
    }
  }
  if (result != CUDA_SUCCESS) return result;
  ++entry->work;
  *stream = entry->stream;
  return CUDA_SUCCESS;
}

CUresult Streams::use_for_memory(uint64_t number, CUstream* stream) {
  if (const CUresult result = use(number, stream)) return result;
  table_.find(number)->uses_memory = true;
  return CUDA_SUCCESS;
}

std::vector<CUstream> Streams::using_memory(CUstream but) {
  std::vector<CUstream> found;
  const auto look = [&](Entry& entry) {
    if (!entry.uses_memory || entry.stream == but) return;
    entry.uses_memory = driver_->stream_query(entry.stream) == CUDA_ERROR_NOT_READY;
    if (entry.uses_memory) found.push_back(entry.stream);
  };
  table_.for_each([&](uint64_t, Entry& entry) { look(entry); });
  for (Entry& entry : leaving_) look(entry);
  return found;
}

std::vector<CUstream> Streams::all() {
  std::vector<CUstream> found;
  release_idle();
  table_.for_each([&](uint64_t, Entry& entry) { found.push_back(entry.stream); });
  for (const Entry& entry : leaving_) found.push_back(entry.stream);
  return found;
}

std::vector<CUstream> Streams::all_of(uint64_t context) {
  release_idle();
  std::vector<CUstream> found;
  table_.for_each([&](uint64_t, Entry& entry) {
    if (entry.context == context) found.push_back(entry.stream);
  });
  for (const Entry& entry : leaving_) {
    if (entry.context == context) found.push_back(entry.stream);
  }
  return found;
}

}  // namespace lambent::forward_server
