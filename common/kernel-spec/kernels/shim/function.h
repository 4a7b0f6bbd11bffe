// What stands for a function object of which only a launch elsewhere tells: of one value that value, of several their sum.
#pragma once

struct bluefin_function {
    template <class T> __host__ __device__ T operator()(T value) const { return value; }
    template <class T, class... Rest> __host__ __device__ T operator()(T first, Rest... rest) const {
        return (T)(first + (*this)(rest...));
    }
    // What changes no sum.
    __host__ __device__ static constexpr int identity() { return 0; }
};
