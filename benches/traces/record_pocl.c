// Records how long the jobs of an OpenCL device take: the same kernel again and again, each
// waited for before the next is enqueued. With PoCL the device is the CPU's own cores, with a
// driver, a queue and a compiler as those of any other.
//
//     cc -O2 -o /tmp/record_pocl benches/traces/record_pocl.c -lOpenCL && /tmp/record_pocl 2000 40
//
// One line a job: nanoseconds from the enqueue until clFinish returns.

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const char *SOURCE =
    "kernel void work(global float *data, int rounds) {\n"
    "    size_t at = get_global_id(0);\n"
    "    float x = data[at];\n"
    "    for (int round = 0; round < rounds; round++) x = x * 0.999f + 0.001f;\n"
    "    data[at] = x;\n"
    "}\n";

enum { ITEMS = 16384, WARM = 50 };

static long long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

#define TRY(call)                                                                                  \
    do {                                                                                           \
        cl_int code = (call);                                                                      \
        if (code != CL_SUCCESS) {                                                                  \
            fprintf(stderr, #call ": %d\n", code);                                                 \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

int main(int count, char **args) {
    int jobs = count > 1 ? atoi(args[1]) : 2000;
    cl_int rounds = count > 2 ? atoi(args[2]) : 200, code;
    cl_platform_id platform;
    cl_device_id device;
    TRY(clGetPlatformIDs(1, &platform, NULL));
    TRY(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    TRY(code);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &code);
    TRY(code);
    cl_program program = clCreateProgramWithSource(context, 1, &SOURCE, NULL, &code);
    TRY(code);
    TRY(clBuildProgram(program, 1, &device, "", NULL, NULL));
    cl_kernel kernel = clCreateKernel(program, "work", &code);
    TRY(code);
    cl_mem data = clCreateBuffer(context, CL_MEM_READ_WRITE, ITEMS * sizeof(float), NULL, &code);
    TRY(code);
    TRY(clSetKernelArg(kernel, 0, sizeof data, &data));
    TRY(clSetKernelArg(kernel, 1, sizeof rounds, &rounds));
    for (int job = -WARM; job < jobs; job++) {
        size_t items = ITEMS;
        long long start = now_ns();
        TRY(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL));
        TRY(clFinish(queue));
        if (job >= 0) printf("%lld\n", now_ns() - start);
    }
    return 0;
}
