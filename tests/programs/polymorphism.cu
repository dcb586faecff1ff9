// Pointers to functions of the device, virtual functions of objects that kernels made, and the heap
// of the device.
#include <cstdio>
#include <new>
typedef float (*op_t)(float, float);
__device__ float add(float a, float b) { return a + b; }
__device__ float mul(float a, float b) { return a * b; }
__device__ op_t d_add = add;
__device__ op_t d_mul = mul;
__device__ op_t table[2] = {add, mul};
__global__ void apply(op_t f, const float* a, const float* b, float* c, int n) {
  int i = threadIdx.x;
  if (i < n) c[i] = f(a[i], b[i]) + table[i % 2](1, 2);
}
class Shape {
 public:
  __device__ virtual ~Shape() {}
  __device__ virtual float area() const = 0;
};
class Square : public Shape {
  float s;

 public:
  __device__ Square(float s) : s(s) {}
  __device__ float area() const override { return s * s; }
};
class Circle : public Shape {
  float r;

 public:
  __device__ Circle(float r) : r(r) {}
  __device__ float area() const override { return 3.f * r * r; }
};
__global__ void make(Shape** s, int n) {
  for (int i = 0; i < n; i++) s[i] = i % 2 ? (Shape*)new Square(i) : (Shape*)new Circle(i);
}
__global__ void areas(Shape** s, float* o, int n) {
  int i = threadIdx.x + blockDim.x * blockIdx.x;
  if (i < n) o[i] = s[i]->area();
}
__global__ void destroy(Shape** s, int n) {
  for (int i = 0; i < n; i++) delete s[i];
}
__global__ void heap(int** p) {
  int* q = (int*)malloc(sizeof(int) * 4);
  q[0] = 42;
  *p = q;
}
__global__ void heap2(int** p, int* o) {
  *o = (*p)[0];
  free(*p);
}
int main() {
  op_t h;
  float ha[32], hb[32], hc[32], *a, *b, *c;
  for (int i = 0; i < 32; i++) ha[i] = i, hb[i] = 2;
  cudaMalloc(&a, 128);
  cudaMalloc(&b, 128);
  cudaMalloc(&c, 128);
  cudaMemcpy(a, ha, 128, cudaMemcpyHostToDevice);
  cudaMemcpy(b, hb, 128, cudaMemcpyHostToDevice);
  cudaMemcpyFromSymbol(&h, d_mul, sizeof h);
  apply<<<1, 32>>>(h, a, b, c, 32);
  cudaMemcpy(hc, c, 128, cudaMemcpyDeviceToHost);
  for (int i = 0; i < 32; i++)
    if (hc[i] != i * 2 + (i % 2 ? 2 : 3)) return printf("bad %d %f\n", i, hc[i]), 1;
  Shape** s;
  cudaMalloc(&s, 32 * sizeof *s);
  cudaDeviceSetLimit(cudaLimitMallocHeapSize, 8 << 20);
  make<<<1, 1>>>(s, 32);
  areas<<<2, 16>>>(s, c, 32);
  destroy<<<1, 1>>>(s, 32);
  cudaMemcpy(hc, c, 128, cudaMemcpyDeviceToHost);
  for (int i = 0; i < 32; i++)
    if (hc[i] != (i % 2 ? i * i : 3 * i * i)) return printf("area %d %f\n", i, hc[i]), 1;
  int **pp, *o, ho;
  cudaMalloc(&pp, 8);
  cudaMalloc(&o, 4);
  heap<<<1, 1>>>(pp);
  heap2<<<1, 1>>>(pp, o);
  cudaMemcpy(&ho, o, 4, cudaMemcpyDeviceToHost);
  printf("%d %s\n", ho, cudaGetErrorString(cudaGetLastError()));
  return ho != 42;
}
