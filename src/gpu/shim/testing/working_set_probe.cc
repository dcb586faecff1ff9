// A program that keeps several pieces of device memory and uses the one that standard input says,
// in the way that it says, a line each: by a kernel's parameters, by addresses on the device, by
// copies. Over the emulated driver with the shim preloaded; prints one "name value" a line.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/shim/testing/working_set_probe.h"

std::vector<Piece> pieces;
CUfunction increment, increment_through;

void must(int status) {
  if (status == 0) return;
  printf("failed %d\n", status);
  fflush(stdout);
  _exit(90);
}

void say(const char* name, long long value) {
  printf("%s %lld\n", name, value);
  fflush(stdout);
}

namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kTableWords = 64;

CUfunction increment_wrapped, store_address;
CUdeviceptr written_table = 0;  // by the host
CUdeviceptr stored_table = 0;   // by a kernel
CUcontext other_context = nullptr;
CUstream other_stream = nullptr;
CUdeviceptr awaited = 0;

void launch(CUfunction function, void** parameters, CUstream stream = nullptr) {
  must(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr));
}

void hold(size_t count, size_t bytes) {
  for (size_t i = 0; i < count; ++i) {
    Piece piece{0, bytes / 4, static_cast<uint32_t>(1000 * (pieces.size() + 1))};
    must(cuMemAlloc_v2(&piece.address, bytes));
    must(cuMemsetD32_v2(piece.address, piece.expected, piece.words));
    pieces.push_back(piece);
  }
  must(cuCtxSynchronize());
  say("held", static_cast<long long>(pieces.size()));
}

void by_parameter(size_t i) {
  uint64_t count = pieces[i].words;
  void* parameters[] = {&pieces[i].address, &count};
  launch(increment, parameters);
}

void by_structure(size_t i) {
  struct {
    uint64_t count;
    CUdeviceptr words;
  } wrapped = {pieces[i].words, pieces[i].address};
  void* parameters[] = {&wrapped};
  launch(increment_wrapped, parameters);
}

void by_buffer(size_t i) {
  struct {
    CUdeviceptr words;
    uint64_t count;
  } buffer = {pieces[i].address, pieces[i].words};
  size_t bytes = sizeof(buffer);
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  must(cuLaunchKernel(increment, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
}

void through(CUdeviceptr table, size_t i) {
  uint64_t index = i;
  uint64_t count = pieces[i].words;
  void* parameters[] = {&table, &index, &count};
  launch(increment_through, parameters);
}
void by_written_table(size_t i) { through(written_table, i); }
void by_stored_table(size_t i) { through(stored_table, i); }

void by_copies(size_t i) {
  std::vector<uint32_t> words(pieces[i].words);
  must(cuMemcpyDtoH_v2(words.data(), pieces[i].address, words.size() * 4));
  for (uint32_t& word : words) ++word;
  must(cuMemcpyHtoD_v2(pieces[i].address, words.data(), words.size() * 4));
}

// By an upload, a copy of the default kind, or a stream that stores each.
void make_tables(const char* act) {
  must(cuMemAlloc_v2(&written_table, kTableWords * sizeof(CUdeviceptr)));
  std::vector<CUdeviceptr> table(kTableWords);
  for (size_t i = 0; i < pieces.size(); ++i) table[i] = pieces[i].address;
  const size_t bytes = pieces.size() * sizeof(CUdeviceptr);
  if (strcmp(act, "write_table") == 0) must(cuMemcpyHtoD_v2(written_table, table.data(), bytes));
  if (strcmp(act, "copy_table") == 0) {
    must(cuMemcpy(written_table, reinterpret_cast<CUdeviceptr>(table.data()), bytes));
  }
  for (size_t i = 0; strcmp(act, "stream_table") == 0 && i < pieces.size(); ++i) {
    must(cuStreamWriteValue64_v2(nullptr, written_table + i * sizeof(CUdeviceptr), table[i], 0));
  }
  must(cuCtxSynchronize());
  say("written", 1);
}

// What the driver says to uploads from where the processor cannot read.
void upload_from_nowhere() {
  const auto nowhere = reinterpret_cast<const void*>(uintptr_t{4096});
  say("refused", cuMemcpyHtoD_v2(pieces[0].address, nowhere, 64));
}

// A second context, which has work to do once a word of a pool's memory is one.
void let_other_context_wait() {
  CUcontext before = nullptr;
  must(cuCtxGetCurrent(&before));
  must(cuMemAllocAsync(&awaited, sizeof(uint32_t), nullptr));
  must(cuMemsetD32_v2(awaited, 0, 1));
  must(cuCtxSynchronize());
  must(cuCtxCreate_v2(&other_context, 0, 0));
  must(cuStreamCreate(&other_stream, CU_STREAM_NON_BLOCKING));
  must(cuStreamWaitValue32_v2(other_stream, awaited, 1, 0));
  must(cuCtxSetCurrent(before));
  say("waits", 1);
}

void let_other_context_go_on() {
  CUcontext before = nullptr;
  must(cuCtxGetCurrent(&before));
  must(cuStreamWriteValue32_v2(nullptr, awaited, 1, 0));
  must(cuCtxSetCurrent(other_context));
  must(cuStreamSynchronize(other_stream));
  must(cuCtxSetCurrent(before));
  say("goes_on", 1);
}

void store_table() {
  must(cuMemAlloc_v2(&stored_table, kTableWords * sizeof(CUdeviceptr)));
  for (uint64_t i = 0; i < pieces.size(); ++i) {
    void* parameters[] = {&stored_table, &i, &pieces[i].address};
    launch(store_address, parameters);
  }
  must(cuCtxSynchronize());
  say("stored", 1);
}

void use(void (*way)(size_t), size_t i) {
  way(i);
  must(cuCtxSynchronize());
  ++pieces[i].expected;
  say("used", static_cast<long long>(i));
}

// Names every piece.
void check() {
  int broken = 0;
  for (const Piece& piece : pieces) {
    std::vector<uint32_t> words(piece.words);
    must(cuMemcpyDtoH_v2(words.data(), piece.address, words.size() * 4));
    bool same = true;
    for (const uint32_t word : words) same = same && word == piece.expected;
    if (!same) ++broken;
  }
  say("broken", broken);
}

void release(size_t i) {
  must(cuMemFree_v2(pieces[i].address));
  pieces.erase(pieces.begin() + static_cast<long>(i));
  say("freed", static_cast<long long>(i));
}

}  // namespace

int main() {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  must(cuInit(0));
  must(cuDevicePrimaryCtxRetain(&context, 0));
  must(cuCtxSetCurrent(context));
  must(cuModuleLoad(&module, getenv("WORKING_SET_KERNELS")));
  must(cuModuleGetFunction(&increment, module, "increment"));
  must(cuModuleGetFunction(&increment_wrapped, module, "increment_wrapped"));
  must(cuModuleGetFunction(&increment_through, module, "increment_through"));
  must(cuModuleGetFunction(&store_address, module, "store_address"));
  say("ready", 1);
  const struct {
    const char* word;
    void (*way)(size_t);
  } ways[] = {{"parameter", by_parameter},
              {"structure", by_structure},
              {"buffer", by_buffer},
              {"written_table", by_written_table},
              {"stored_table", by_stored_table},
              {"copies", by_copies},
              {"graph", launch_graph}};
  char line[128];
  while (fgets(line, sizeof(line), stdin) != nullptr) {
    char word[64] = {};
    size_t first = 0;
    size_t second = 0;
    sscanf(line, "%63s %zu %zu", word, &first, &second);
    if (strcmp(word, "hold") == 0) hold(first, second * kMiB);
    if (strcmp(word, "hold_bytes") == 0) hold(first, second);
    for (const char* act : {"write_table", "copy_table", "stream_table"}) {
      if (strcmp(word, act) == 0) make_tables(act);
    }
    if (strcmp(word, "upload_from_nowhere") == 0) upload_from_nowhere();
    if (strcmp(word, "other_waits") == 0) let_other_context_wait();
    if (strcmp(word, "other_goes_on") == 0) let_other_context_go_on();
    if (strcmp(word, "store_table") == 0) store_table();
    if (obey_about_graphs(word, first)) continue;
    if (strcmp(word, "check") == 0) check();
    if (strcmp(word, "free") == 0) release(first);
    for (const auto& way : ways) {
      if (strcmp(word, way.word) == 0) use(way.way, first);
    }
  }
  fflush(stdout);
  _exit(0);
}
