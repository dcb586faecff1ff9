// The kernels of yardstick.cu in OpenCL C.
kernel void vector_add(global const float* a, global const float* b, global float* c) {
  const int i = get_global_id(0);
  c[i] = a[i] + b[i];
}

#define MATMUL(name, Tile)                                                               \
  kernel void name(global const float* a, global const float* b, global float* c, int size) { \
    local float tile_a[Tile][Tile];                                                      \
    local float tile_b[Tile][Tile];                                                      \
    const int x = get_local_id(0), y = get_local_id(1);                                  \
    const int row = get_group_id(1) * Tile + y, column = get_group_id(0) * Tile + x;     \
    float sum = 0.0f;                                                                    \
    for (int begin = 0; begin < size; begin += Tile) {                                   \
      tile_a[y][x] = a[row * size + begin + x];                                          \
      tile_b[y][x] = b[(begin + y) * size + column];                                     \
      barrier(CLK_LOCAL_MEM_FENCE);                                                      \
      for (int k = 0; k < Tile; ++k) sum += tile_a[y][k] * tile_b[k][x];                 \
      barrier(CLK_LOCAL_MEM_FENCE);                                                      \
    }                                                                                    \
    c[row * size + column] = sum;                                                        \
  }
MATMUL(matmul_16, 16)
MATMUL(matmul_32, 32)

kernel void reduce(global const float* input, global float* sums) {
  local float partial[256];
  const uint i = get_local_id(0);
  partial[i] = input[get_global_id(0)];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint half_size = get_local_size(0) / 2; half_size > 0; half_size /= 2) {
    if (i < half_size) partial[i] += partial[i + half_size];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (i == 0) sums[get_group_id(0)] = partial[0];
}

kernel void scan(global const float* input, global float* output) {
  local float values[2][256];
  const int i = get_local_id(0);
  int from = 0;
  values[0][i] = input[get_global_id(0)];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int distance = 1; distance < 256; distance *= 2) {
    const float before = i >= distance ? values[from][i - distance] : 0.0f;
    values[1 - from][i] = values[from][i] + before;
    from = 1 - from;
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  output[get_global_id(0)] = values[from][i];
}

kernel void stencil(global const float* input, global float* output) {
  local float values[2][258];
  const int i = get_local_id(0);
  int from = 0;
  values[0][i + 1] = input[get_global_id(0)];
  if (i < 2) values[i][0] = values[i][257] = 0.0f;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int step = 0; step < 8; ++step) {
    values[1 - from][i + 1] =
        (values[from][i] + values[from][i + 1] + values[from][i + 2]) * (1.0f / 3.0f);
    from = 1 - from;
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  output[get_global_id(0)] = values[from][i + 1];
}
