// The catalog with the n-th write to the disk failing, for every n.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <atomic>
#include <cstring>
#include <set>

#include "node/catalog/catalog.h"
#include "node/catalog/testing/testing.h"

namespace lambent::catalog {
namespace {

// SQLite's file system with one operation that fails. It has no other way in than a C table with
// no place for a context, hence the globals of this test.
std::atomic<int> operations_left{0};  // counts down; 0: never fail
std::atomic<int> failure_code{SQLITE_OK};

int fault() {
  if (operations_left.load() == 0) return SQLITE_OK;
  return operations_left.fetch_sub(1) == 1 ? failure_code.load() : SQLITE_OK;
}

// The real file lies behind ours in the same allocation.
struct FaultyFile {
  sqlite3_file base;
  sqlite3_io_methods methods;
  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};
static_assert(sizeof(FaultyFile) % alignof(std::max_align_t) == 0);

sqlite3_file* real(sqlite3_file* file) { return reinterpret_cast<FaultyFile*>(file)->real(); }

int faulty_write(sqlite3_file* file, const void* bytes, int count, sqlite3_int64 offset) {
  const int code = fault();
  return code != SQLITE_OK ? code : real(file)->pMethods->xWrite(real(file), bytes, count, offset);
}

// The machine stays up here, so that what was written is read again without the disk, which would
// take most of the test's time.
int faulty_sync(sqlite3_file*, int) {
  return fault() != SQLITE_OK ? SQLITE_IOERR_FSYNC : SQLITE_OK;
}

int faulty_truncate(sqlite3_file* file, sqlite3_int64 size) {
  const int code = fault();
  return code != SQLITE_OK ? SQLITE_IOERR_TRUNCATE
                           : real(file)->pMethods->xTruncate(real(file), size);
}

// Methods that pass through.
int pass_close(sqlite3_file* f) { return real(f)->pMethods->xClose(real(f)); }
int pass_read(sqlite3_file* f, void* to, int count, sqlite3_int64 offset) {
  return real(f)->pMethods->xRead(real(f), to, count, offset);
}
int pass_size(sqlite3_file* f, sqlite3_int64* size) {
  return real(f)->pMethods->xFileSize(real(f), size);
}
int pass_lock(sqlite3_file* f, int level) { return real(f)->pMethods->xLock(real(f), level); }
int pass_unlock(sqlite3_file* f, int level) { return real(f)->pMethods->xUnlock(real(f), level); }
int pass_check(sqlite3_file* f, int* out) {
  return real(f)->pMethods->xCheckReservedLock(real(f), out);
}
int pass_control(sqlite3_file* f, int op, void* argument) {
  return real(f)->pMethods->xFileControl(real(f), op, argument);
}
int pass_sector(sqlite3_file* f) { return real(f)->pMethods->xSectorSize(real(f)); }
int pass_device(sqlite3_file* f) { return real(f)->pMethods->xDeviceCharacteristics(real(f)); }
int pass_shm_map(sqlite3_file* f, int page, int size, int extend, void volatile** out) {
  return real(f)->pMethods->xShmMap(real(f), page, size, extend, out);
}
int pass_shm_lock(sqlite3_file* f, int offset, int n, int flags) {
  return real(f)->pMethods->xShmLock(real(f), offset, n, flags);
}
void pass_shm_barrier(sqlite3_file* f) { real(f)->pMethods->xShmBarrier(real(f)); }
int pass_shm_unmap(sqlite3_file* f, int remove) {
  return real(f)->pMethods->xShmUnmap(real(f), remove);
}

int faulty_open(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* out) {
  auto* faulty = reinterpret_cast<FaultyFile*>(file);
  auto* below = static_cast<sqlite3_vfs*>(vfs->pAppData);
  const int code = below->xOpen(below, name, faulty->real(), flags, out);
  faulty->base.pMethods = nullptr;
  if (faulty->real()->pMethods == nullptr) return code;
  faulty->methods = {
      2,           pass_close,   pass_read,     faulty_write,     faulty_truncate, faulty_sync,
      pass_size,   pass_lock,    pass_unlock,   pass_check,       pass_control,    pass_sector,
      pass_device, pass_shm_map, pass_shm_lock, pass_shm_barrier, pass_shm_unmap,  nullptr,
      nullptr};
  faulty->base.pMethods = &faulty->methods;
  return code;
}

class FaultyDisk {
 public:
  FaultyDisk() : below_(sqlite3_vfs_find(nullptr)), vfs_(*below_) {
    vfs_.zName = "faulty";
    vfs_.pNext = nullptr;
    vfs_.pAppData = below_;
    vfs_.szOsFile = static_cast<int>(sizeof(FaultyFile)) + below_->szOsFile;
    vfs_.xOpen = faulty_open;
    sqlite3_vfs_register(&vfs_, 1);
  }
  ~FaultyDisk() {
    sqlite3_vfs_unregister(&vfs_);
    sqlite3_vfs_register(below_, 1);
  }

 private:
  sqlite3_vfs* below_;
  sqlite3_vfs vfs_;
};

struct Acknowledged {
  std::set<uint64_t> pending;
  std::set<uint64_t> finished;
  bool function = false;
};

// A fixed story of changes; says which were acknowledged.
Acknowledged tell_story(Catalog& catalog, TestLoop& loop) {
  Acknowledged acknowledged;
  acknowledged.function =
      loop.await<FunctionSpec>([&](auto done) { catalog.put_function(sample_function("f"), done); })
          .ok();
  size_t answered = 0;
  for (uint64_t number = 0; number < 6; ++number) {
    const AsyncInvocation invocation = sample_invocation(number, std::string(9000, 'x'));
    catalog.put_async(invocation, [&, number](const auto& outcome) {
      ++answered;
      if (outcome.ok()) acknowledged.pending.insert(number);
    });
    if (number == 2) loop.run_one();
  }
  while (answered < 6) loop.run_one();
  for (const uint64_t number : {1, 4}) {
    const auto finished = loop.await<void>([&](auto done) {
      catalog.finish_async(kDefaultTenant, sample_result(number), seconds(9), {}, done);
    });
    if (finished.ok()) acknowledged.finished.insert(number);
  }
  return acknowledged;
}

void expect_kept(Catalog& catalog, TestLoop& loop, const Acknowledged& acknowledged) {
  for (const uint64_t number : acknowledged.pending) {
    const auto result = loop.await<std::optional<InvocationResult>>([&](auto done) {
      catalog.async_result(kDefaultTenant, sample_invocation(number).request.id, done);
    });
    ASSERT_TRUE(result.ok()) << number << " is lost: " << to_string(result.error());
    if (acknowledged.finished.contains(number)) {
      EXPECT_TRUE(result->has_value()) << number << " lost its result";
    }
  }
  if (acknowledged.function) {
    EXPECT_EQ(catalog.load_all()->functions.size(), 1u);
  }
}

void fail_every_operation(int code) {
  const FaultyDisk disk;
  for (int n = 1; n < 500; ++n) {
    SCOPED_TRACE("operation " + std::to_string(n));
    const TemporaryFolder folder;
    TestLoop loop;
    failure_code = code;
    operations_left = n;
    Acknowledged acknowledged;
    {
      auto catalog = Catalog::open(folder / "catalog.db", {}, loop.post());
      if (catalog.ok()) acknowledged = tell_story(**catalog, loop);
    }
    const bool reached = operations_left.exchange(0) == 0;
    auto again = Catalog::open(folder / "catalog.db", {}, loop.post());
    ASSERT_TRUE(again.ok()) << to_string(again.error());
    expect_kept(**again, loop, acknowledged);
    if (testing::Test::HasFatalFailure()) return;
    if (!reached) {
      EXPECT_EQ(acknowledged.pending.size(), 6u);
      EXPECT_GT(n, 20) << "hardly anything was tried";
      return;
    }
  }
  FAIL() << "the story never ended without a fault";
}

TEST(FaultyDisk, NothingAcknowledgedIsLostWhicheverOperationFindsTheDiskFull) {
  fail_every_operation(SQLITE_FULL);
}

TEST(FaultyDisk, NothingAcknowledgedIsLostWhicheverOperationFails) {
  fail_every_operation(SQLITE_IOERR_WRITE);
}

}  // namespace
}  // namespace lambent::catalog
