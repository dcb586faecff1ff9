// Texture and surface objects as the driver makes and describes them. What kernels read through
// them is in tests/programs/textures.cu.
#include "conformance/fixture.h"

namespace lambent::conformance {
namespace {

class TextureObjects : public WithContext {
 protected:
  CUarray create(size_t width, size_t height, unsigned flags = 0) {
    const CUDA_ARRAY3D_DESCRIPTOR descriptor{width, height, 0, CU_AD_FORMAT_FLOAT, 1, flags};
    CUarray array = nullptr;
    EXPECT_EQ(cu.array_3d_create(&array, &descriptor), CUDA_SUCCESS);
    return array;
  }
  static CUDA_RESOURCE_DESC of(CUarray array) {
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = array;
    return resource;
  }
  static CUDA_TEXTURE_DESC clamped() {
    CUDA_TEXTURE_DESC descriptor{};
    for (auto& mode : descriptor.addressMode) mode = CU_TR_ADDRESS_MODE_CLAMP;
    return descriptor;
  }
};

TEST_F(TextureObjects, TellWhatTheyWereMadeOf) {
  CUarray array = create(8, 4);
  const CUDA_RESOURCE_DESC resource = of(array);
  CUDA_TEXTURE_DESC descriptor = clamped();
  descriptor.filterMode = CU_TR_FILTER_MODE_LINEAR;
  descriptor.flags = CU_TRSF_NORMALIZED_COORDINATES;
  CUtexObject texture = 0;
  OK(cu.tex_object_create(&texture, &resource, &descriptor, nullptr));
  EXPECT_NE(texture, 0u);
  CUDA_RESOURCE_DESC found{};
  OK(cu.tex_object_get_resource_desc(&found, texture));
  EXPECT_EQ(found.res.array.hArray, array);
  CUDA_TEXTURE_DESC how{};
  OK(cu.tex_object_get_texture_desc(&how, texture));
  EXPECT_EQ(how.filterMode, CU_TR_FILTER_MODE_LINEAR);
  EXPECT_EQ(how.flags, unsigned{CU_TRSF_NORMALIZED_COORDINATES});
  CUDA_RESOURCE_VIEW_DESC view{};
  EXPECT_EQ(cu.tex_object_get_resource_view_desc(&view, texture), CUDA_ERROR_INVALID_VALUE);
  OK(cu.tex_object_destroy(texture));
  OK(cu.array_destroy(array));
}

TEST_F(TextureObjects, SeveralMayShareAnArray) {
  CUarray array = create(8, 4);
  const CUDA_RESOURCE_DESC resource = of(array);
  const CUDA_TEXTURE_DESC descriptor = clamped();
  CUtexObject one = 0, two = 0;
  OK(cu.tex_object_create(&one, &resource, &descriptor, nullptr));
  OK(cu.tex_object_create(&two, &resource, &descriptor, nullptr));
  EXPECT_NE(one, two);
  OK(cu.tex_object_destroy(one));
  CUDA_TEXTURE_DESC how{};
  OK(cu.tex_object_get_texture_desc(&how, two));
  OK(cu.tex_object_destroy(two));
  OK(cu.array_destroy(array));
}

TEST_F(TextureObjects, OfMemoryMustFitTheMemory) {
  CUdeviceptr memory = 0;
  OK(cu.mem_alloc(&memory, 4096));
  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_PITCH2D;
  resource.res.pitch2D = {memory, CU_AD_FORMAT_UNSIGNED_INT8, 4, 16, 8, 128};
  const CUDA_TEXTURE_DESC descriptor = clamped();
  CUtexObject texture = 0;
  OK(cu.tex_object_create(&texture, &resource, &descriptor, nullptr));
  OK(cu.tex_object_destroy(texture));
  resource.res.pitch2D.pitchInBytes = 32;  // less than a row of 64 bytes
  EXPECT_EQ(cu.tex_object_create(&texture, &resource, &descriptor, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  resource.res.pitch2D.pitchInBytes = 128;
  resource.res.pitch2D.numChannels = 3;
  EXPECT_EQ(cu.tex_object_create(&texture, &resource, &descriptor, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  OK(cu.mem_free(memory));
}

TEST_F(TextureObjects, NoneIsMadeOfWrongWords) {
  CUarray array = create(8, 4);
  CUDA_RESOURCE_DESC resource = of(array);
  CUDA_TEXTURE_DESC descriptor = clamped();
  CUtexObject texture = 0;
  EXPECT_EQ(cu.tex_object_create(nullptr, &resource, &descriptor, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.tex_object_create(&texture, nullptr, &descriptor, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.tex_object_create(&texture, &resource, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  resource.flags = 1;
  EXPECT_EQ(cu.tex_object_create(&texture, &resource, &descriptor, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  OK(cu.array_destroy(array));
}

TEST_F(TextureObjects, ViewsKeepTheSizeOfElements) {
  CUarray array = create(8, 4);
  const CUDA_RESOURCE_DESC resource = of(array);
  CUDA_TEXTURE_DESC descriptor = clamped();
  descriptor.flags = CU_TRSF_READ_AS_INTEGER;
  CUDA_RESOURCE_VIEW_DESC view{};
  view.width = 8;
  view.height = 4;
  view.format = CU_RES_VIEW_FORMAT_UINT_1X32;
  CUtexObject texture = 0;
  OK(cu.tex_object_create(&texture, &resource, &descriptor, &view));
  CUDA_RESOURCE_VIEW_DESC found{};
  OK(cu.tex_object_get_resource_view_desc(&found, texture));
  EXPECT_EQ(found.format, CU_RES_VIEW_FORMAT_UINT_1X32);
  OK(cu.tex_object_destroy(texture));
  view.format = CU_RES_VIEW_FORMAT_FLOAT_1X16;
  EXPECT_NE(cu.tex_object_create(&texture, &resource, &descriptor, &view), CUDA_SUCCESS);
  OK(cu.array_destroy(array));
}

TEST_F(TextureObjects, ViewsHaveTheExtentsOfTheirArray) {
  const CUDA_ARRAY3D_DESCRIPTOR boxes[] = {
      {8, 4, 3, CU_AD_FORMAT_FLOAT, 1, 0},
      {8, 4, 3, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_LAYERED},
      {4, 4, 12, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP}};
  const unsigned layers[] = {1, 3, 2};
  for (int i = 0; i < 3; i++) {
    CUarray array = nullptr;
    OK(cu.array_3d_create(&array, &boxes[i]));
    const CUDA_RESOURCE_DESC resource = of(array);
    const CUDA_TEXTURE_DESC descriptor = clamped();
    const auto created = [&](const CUDA_RESOURCE_VIEW_DESC& view) {
      CUtexObject texture = 0;
      const CUresult result = cu.tex_object_create(&texture, &resource, &descriptor, &view);
      if (result == CUDA_SUCCESS) {
        EXPECT_EQ(cu.tex_object_destroy(texture), CUDA_SUCCESS);
      }
      return result;
    };
    CUDA_RESOURCE_VIEW_DESC view{};
    view.width = boxes[i].Width;
    view.height = boxes[i].Height;
    view.depth = boxes[i].Depth;
    OK(created(view));
    view.lastLayer = layers[i] - 1;
    OK(created(view));
    view.lastLayer = layers[i];  // of a box: there are none
    EXPECT_EQ(created(view), CUDA_ERROR_INVALID_VALUE) << i;
    view.lastLayer = 0;
    view.firstLayer = 1;
    EXPECT_EQ(created(view), CUDA_ERROR_INVALID_VALUE) << i;
    view.firstLayer = 0;
    view.depth--;
    EXPECT_EQ(created(view), CUDA_ERROR_INVALID_VALUE) << i;
    view.depth++;
    view.lastMipmapLevel = 1;
    EXPECT_EQ(created(view), CUDA_ERROR_INVALID_VALUE) << i;
    OK(cu.array_destroy(array));
  }
}

// A kernel that reads it may run in the context that it was made in, which is not current here. The
// array too.
TEST_F(TextureObjects, DestroyingOneWaitsForItsContext) {
  CUarray array = create(8, 4, CUDA_ARRAY3D_SURFACE_LDST);
  const CUDA_RESOURCE_DESC resource = of(array);
  const CUDA_TEXTURE_DESC descriptor = clamped();
  CUtexObject texture = 0;
  CUsurfObject surface = 0;
  OK(cu.tex_object_create(&texture, &resource, &descriptor, nullptr));
  OK(cu.surf_object_create(&surface, &resource));
  CUstream stream = nullptr;
  OK(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  CUcontext other = nullptr;
  LateWork first, second, third;
  OK(first.submit(stream));
  OK(cu.ctx_create_v2(&other, 0, 0));
  EXPECT_TRUE(first.is_waited_for([&] { return cu.tex_object_destroy(texture); }));
  OK(cu.ctx_set_current(context));
  OK(second.submit(stream));
  OK(cu.ctx_set_current(other));
  EXPECT_TRUE(second.is_waited_for([&] { return cu.surf_object_destroy(surface); }));
  OK(cu.ctx_set_current(context));
  OK(third.submit(stream));
  OK(cu.ctx_set_current(other));
  EXPECT_TRUE(third.is_waited_for([&] { return cu.array_destroy(array); }));
  OK(cu.ctx_destroy(other));
  OK(cu.ctx_set_current(context));
  OK(cu.stream_destroy(stream));
}

TEST_F(TextureObjects, SurfacesNeedAnArrayThatAllowsThem) {
  CUarray array = create(8, 4, CUDA_ARRAY3D_SURFACE_LDST);
  CUDA_RESOURCE_DESC resource = of(array);
  CUsurfObject surface = 0;
  OK(cu.surf_object_create(&surface, &resource));
  CUDA_RESOURCE_DESC found{};
  OK(cu.surf_object_get_resource_desc(&found, surface));
  EXPECT_EQ(found.res.array.hArray, array);
  OK(cu.surf_object_destroy(surface));
  EXPECT_EQ(cu.surf_object_create(nullptr, &resource), CUDA_ERROR_INVALID_VALUE);
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  EXPECT_EQ(cu.surf_object_create(&surface, &resource), CUDA_ERROR_INVALID_VALUE);
  OK(cu.array_destroy(array));
}

TEST_F(TextureObjects, WhatIsNoneIsRefused) {
  EMULATOR_ONLY("a driver may take any number for an object");
  EXPECT_EQ(cu.tex_object_destroy(0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.tex_object_destroy(12345), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.surf_object_destroy(12345), CUDA_ERROR_INVALID_VALUE);
  CUarray array = create(8, 4);
  const CUDA_RESOURCE_DESC resource = of(array);
  CUsurfObject surface = 0;
  EXPECT_EQ(cu.surf_object_create(&surface, &resource), CUDA_ERROR_INVALID_VALUE);
  OK(cu.array_destroy(array));
}

}  // namespace
}  // namespace lambent::conformance
