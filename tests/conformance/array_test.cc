// Arrays and copies of boxes, and many copies in one call.
#include <cstring>
#include <numeric>

#include "conformance/fixture.h"

namespace lambent::conformance {
namespace {

class Arrays : public WithContext {
 protected:
  static CUDA_ARRAY3D_DESCRIPTOR floats(size_t width, size_t height, size_t depth) {
    return {width, height, depth, CU_AD_FORMAT_FLOAT, 1, 0};
  }
  CUarray create(const CUDA_ARRAY3D_DESCRIPTOR& descriptor) {
    CUarray array = nullptr;
    EXPECT_EQ(cu.array_3d_create(&array, &descriptor), CUDA_SUCCESS);
    return array;
  }
};

TEST_F(Arrays, ABoxGoesInAndComesOut) {
  constexpr size_t kWidth = 20, kHeight = 10, kDepth = 5;
  std::vector<float> out(kWidth * kHeight * kDepth), back(out.size());
  std::iota(out.begin(), out.end(), 1.0f);
  CUarray array = create(floats(kWidth, kHeight, kDepth));
  CUDA_MEMCPY3D request{};
  request.srcMemoryType = CU_MEMORYTYPE_HOST;
  request.srcHost = out.data();
  request.srcPitch = kWidth * 4;
  request.srcHeight = kHeight;
  request.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  request.dstArray = array;
  request.WidthInBytes = kWidth * 4;
  request.Height = kHeight;
  request.Depth = kDepth;
  OK(cu.memcpy_3d(&request));
  // One box from the middle, to the middle of other memory.
  CUDA_MEMCPY3D middle{};
  middle.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  middle.srcArray = array;
  middle.srcXInBytes = 8;
  middle.srcY = 3;
  middle.srcZ = 1;
  middle.dstMemoryType = CU_MEMORYTYPE_HOST;
  middle.dstHost = back.data();
  middle.dstPitch = kWidth * 4;
  middle.dstHeight = kHeight;
  middle.dstXInBytes = 4;
  middle.dstY = 2;
  middle.dstZ = 2;
  middle.WidthInBytes = 12;
  middle.Height = 4;
  middle.Depth = 2;
  OK(cu.memcpy_3d(&middle));
  auto at = [&](size_t x, size_t y, size_t z) { return (z * kHeight + y) * kWidth + x; };
  EXPECT_EQ(back[at(1, 2, 2)], out[at(2, 3, 1)]);
  EXPECT_EQ(back[at(3, 5, 3)], out[at(4, 6, 2)]);
  EXPECT_EQ(back[at(4, 5, 3)], 0);
  EXPECT_EQ(back[at(3, 6, 3)], 0);
  middle.srcXInBytes = 72;
  EXPECT_EQ(cu.memcpy_3d(&middle), CUDA_ERROR_INVALID_VALUE);
  middle.srcXInBytes = SIZE_MAX - 4;
  EXPECT_EQ(cu.memcpy_3d(&middle), CUDA_ERROR_INVALID_VALUE);
  OK(cu.array_destroy(array));
}

TEST_F(Arrays, LinesAndRowsGoInAndOut) {
  CUDA_ARRAY_DESCRIPTOR flat{16, 8, CU_AD_FORMAT_UNSIGNED_INT16, 2}, told{};
  CUarray array = nullptr;
  OK(cu.array_create(&array, &flat));
  OK(cu.array_get_descriptor(&told, array));
  EXPECT_EQ(std::memcmp(&told, &flat, sizeof flat), 0);
  std::vector<uint32_t> out(16 * 8), back(16 * 8);
  std::iota(out.begin(), out.end(), 100);
  CUdeviceptr linear = allocate(16 * 8 * 4);
  CUDA_MEMCPY2D rows{};
  rows.srcMemoryType = CU_MEMORYTYPE_HOST;
  rows.srcHost = out.data();
  rows.srcPitch = 64;
  rows.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  rows.dstArray = array;
  rows.WidthInBytes = 64;
  rows.Height = 8;
  OK(cu.memcpy_2d(&rows));
  OK(cu.memcpy_a_to_d(linear, array, 64, 64));
  OK(cu.memcpy_d_to_h(back.data(), linear, 64));
  EXPECT_EQ(back[0], 116u);
  OK(cu.memcpy_h_to_a(array, 0, back.data(), 64));
  OK(cu.memcpy_a_to_h(back.data() + 16, array, 0, 64));
  EXPECT_EQ(back[16], 116u);
  EXPECT_EQ(cu.memcpy_a_to_h(back.data(), array, 0, 16 * 8 * 4 + 1), CUDA_ERROR_INVALID_VALUE);
  OK(cu.array_destroy(array));
}

TEST_F(Arrays, TheyTakeDeviceMemoryUntilTheyAreDestroyed) {
  size_t before = free_bytes();
  CUarray array = create(floats(1024, 1024, 0));
  EXPECT_LE(free_bytes(), before - (4 << 20));
  CUDA_ARRAY3D_DESCRIPTOR told{};
  OK(cu.array_3d_get_descriptor(&told, array));
  EXPECT_EQ(told.Width, 1024u);
  OK(cu.array_destroy(array));
  EXPECT_EQ(free_bytes(), before);
  EMULATOR_ONLY("a GPU's driver may not survive an array that is none");
  EXPECT_EQ(cu.array_destroy(array), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cu.array_3d_get_descriptor(&told, nullptr), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(Arrays, MipmappedOnesHaveLevelsOfHalfTheSize) {
  size_t before = free_bytes();
  CUDA_ARRAY3D_DESCRIPTOR descriptor = floats(64, 16, 0), told{};
  CUmipmappedArray mipmapped = nullptr;
  CUarray level = nullptr;
  OK(cu.mipmapped_array_create(&mipmapped, &descriptor, 3));
  OK(cu.mipmapped_array_get_level(&level, mipmapped, 2));
  OK(cu.array_3d_get_descriptor(&told, level));
  EXPECT_EQ(told.Width, 16u);
  EXPECT_EQ(told.Height, 4u);
  EXPECT_EQ(cu.mipmapped_array_get_level(&level, mipmapped, 3), CUDA_ERROR_INVALID_VALUE);
  OK(cu.mipmapped_array_destroy(mipmapped));
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(Arrays, WrongShapesAreErrors) {
  CUarray array = nullptr;
  CUDA_ARRAY3D_DESCRIPTOR wrong = floats(0, 4, 0);
  EXPECT_EQ(cu.array_3d_create(&array, &wrong), CUDA_ERROR_INVALID_VALUE);
  wrong = floats(4, 4, 0);
  wrong.NumChannels = 3;
  EXPECT_EQ(cu.array_3d_create(&array, &wrong), CUDA_ERROR_INVALID_VALUE);
  wrong = floats(4, 5, 6);
  wrong.Flags = CUDA_ARRAY3D_CUBEMAP;
  EXPECT_EQ(cu.array_3d_create(&array, &wrong), CUDA_ERROR_INVALID_VALUE);
  wrong = floats(size_t{1} << 40, 4, 0);
  EXPECT_EQ(cu.array_3d_create(&array, &wrong), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.array_3d_create(&array, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Arrays, ABatchOfCopiesIsOneOperation) {
  CUstream stream;
  OK(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  CUdeviceptr a = allocate(4096), b = allocate(4096);
  uint32_t ephemeral = 11, word[2] = {};
  std::vector<uint32_t> host(1024, 22);
  CUdeviceptr to[2] = {a, b};
  CUdeviceptr from[2] = {reinterpret_cast<CUdeviceptr>(&ephemeral),
                         reinterpret_cast<CUdeviceptr>(host.data())};
  size_t sizes[2] = {4, 4096}, indices[2] = {0, 1}, failed = 0;
  CUmemcpyAttributes attributes[2] = {};
  attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
  attributes[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  OK(cu.memcpy_batch_async_v2(to, from, sizes, 2, attributes, indices, 2, stream));
  ephemeral = 0;
  OK(cu.stream_synchronize(stream));
  OK(cu.memcpy_d_to_h(&word[0], a, 4));
  OK(cu.memcpy_d_to_h(&word[1], b + 4092, 4));
  EXPECT_EQ(word[0], 11u);
  EXPECT_EQ(word[1], 22u);
  sizes[1] = 5000;  // beyond the allocation
  EXPECT_EQ(cu.memcpy_batch_async(to, from, sizes, 2, attributes, indices, 2, &failed, stream),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(failed, 1u);
  sizes[1] = 4096;
  EXPECT_NE(cu.memcpy_batch_async_v2(to, from, sizes, 2, attributes, indices, 2, nullptr),
            CUDA_SUCCESS);
  attributes[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
  EXPECT_EQ(cu.memcpy_batch_async_v2(to, from, sizes, 2, attributes, indices, 2, stream),
            CUDA_ERROR_INVALID_VALUE);
  OK(cu.stream_destroy(stream));
}

TEST_F(Arrays, ABatchOfBoxesFillsAnArray) {
  CUstream stream;
  OK(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  CUarray array = create(floats(8, 4, 0));
  std::vector<float> out(16, 1.5f), back(32);
  CUDA_MEMCPY3D_BATCH_OP boxes[2] = {};
  for (int i = 0; i < 2; i++) {
    boxes[i].src.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    boxes[i].src.op.ptr.ptr = reinterpret_cast<CUdeviceptr>(out.data());
    boxes[i].dst.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
    boxes[i].dst.op.array.array = array;
    boxes[i].dst.op.array.offset = {static_cast<size_t>(4 * i), 0, 0};
    boxes[i].extent = {4, 4, 1};
    boxes[i].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  }
  OK(cu.memcpy_3d_batch_async_v2(2, boxes, 0, stream));
  OK(cu.stream_synchronize(stream));
  OK(cu.memcpy_a_to_h(back.data(), array, 0, 128));
  EXPECT_EQ(back, std::vector<float>(32, 1.5f));
  size_t failed = 9;
  boxes[1].dst.op.array.offset.x = 5;
  EXPECT_EQ(cu.memcpy_3d_batch_async(2, boxes, &failed, 0, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(failed, 1u);
  OK(cu.array_destroy(array));
  OK(cu.stream_destroy(stream));
}

}  // namespace
}  // namespace lambent::conformance
