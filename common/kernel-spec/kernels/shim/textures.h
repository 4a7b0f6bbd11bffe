// Textures and surfaces as memory that is read and written without the hardware's samplers: an object is what it points to and how large that is, a
// structure by value. Filters and borders are what a host sets, which is left out: the nearest texel is taken, and what is outside of a texture has
// that of the edge. Modes of what is outside of a surface are not looked at.
#pragma once

struct bluefin_texture {
    const float* texels;
    int width, height, depth;
    bluefin_texture() = default;
    BLUEFIN_MEMBER_OF_BOTH constexpr bluefin_texture(unsigned long long) : texels(nullptr), width(0), height(0), depth(0) {}
    BLUEFIN_MEMBER_OF_BOTH constexpr explicit operator bool() const { return texels; }
};
struct bluefin_surface {
    float* texels;
    int width, height, depth;
    bluefin_surface() = default;
    BLUEFIN_MEMBER_OF_BOTH constexpr bluefin_surface(unsigned long long) : texels(nullptr), width(0), height(0), depth(0) {}
    BLUEFIN_MEMBER_OF_BOTH constexpr explicit operator bool() const { return texels; }
};

BLUEFIN_DEVICE int bluefin_texel(float at, int size) {
    const int nearest = (int)__builtin_floorf(at), last = size - 1;
    return nearest > last ? last : nearest < 0 ? 0 : nearest;
}
BLUEFIN_DEVICE size_t bluefin_texel(bluefin_texture from, float x, float y, float z) {
    const size_t row = (size_t)bluefin_texel(z, from.depth) * from.height + bluefin_texel(y, from.height);
    return row * from.width + bluefin_texel(x, from.width);
}
template <class T> BLUEFIN_DEVICE T bluefin_sample(bluefin_texture from, size_t at) { return ((const T*)from.texels)[at]; }

template <class T> BLUEFIN_DEVICE T tex1Dfetch(bluefin_texture from, int x) {
    return x < 0 || x >= from.width * from.height * from.depth ? T{} : bluefin_sample<T>(from, x);
}
template <class T> BLUEFIN_DEVICE T tex1D(bluefin_texture from, float x) {
    return bluefin_sample<T>(from, bluefin_texel(x, from.width));
}
template <class T> BLUEFIN_DEVICE T tex2D(bluefin_texture from, float x, float y) {
    return bluefin_sample<T>(from, (size_t)bluefin_texel(y, from.height) * from.width + bluefin_texel(x, from.width));
}
template <class T> BLUEFIN_DEVICE T tex3D(bluefin_texture from, float x, float y, float z) {
    return bluefin_sample<T>(from, bluefin_texel(from, x, y, z));
}
template <class T> BLUEFIN_DEVICE T tex1DLod(bluefin_texture from, float x, float) { return tex1D<T>(from, x); }
template <class T> BLUEFIN_DEVICE T tex2DLod(bluefin_texture from, float x, float y, float) { return tex2D<T>(from, x, y); }
template <class T> BLUEFIN_DEVICE T tex3DLod(bluefin_texture from, float x, float y, float z, float) {
    return tex3D<T>(from, x, y, z);
}
template <class T> BLUEFIN_DEVICE T tex2DLayered(bluefin_texture from, float x, float y, int layer) {
    return tex3D<T>(from, x, y, (float)layer);
}
template <class T> BLUEFIN_DEVICE void tex1Dfetch(T* to, bluefin_texture from, int x) { *to = tex1Dfetch<T>(from, x); }
template <class T> BLUEFIN_DEVICE void tex2D(T* to, bluefin_texture from, float x, float y) { *to = tex2D<T>(from, x, y); }
template <class T> BLUEFIN_DEVICE void tex3D(T* to, bluefin_texture from, float x, float y, float z) {
    *to = tex3D<T>(from, x, y, z);
}

// Of surfaces x counts bytes.
enum cudaSurfaceBoundaryMode { cudaBoundaryModeZero, cudaBoundaryModeClamp, cudaBoundaryModeTrap };
enum hipSurfaceBoundaryMode { hipBoundaryModeZero, hipBoundaryModeClamp, hipBoundaryModeTrap };
template <class T> BLUEFIN_DEVICE T& bluefin_texel_of(bluefin_surface of, int x, int y, int z) {
    return ((T*)of.texels)[((size_t)z * of.height + y) * of.width + x / (int)sizeof(T)];
}
template <class T, class... Mode> BLUEFIN_DEVICE void surf1Dwrite(T value, bluefin_surface to, int x, Mode...) {
    bluefin_texel_of<T>(to, x, 0, 0) = value;
}
template <class T, class... Mode> BLUEFIN_DEVICE void surf2Dwrite(T value, bluefin_surface to, int x, int y, Mode...) {
    bluefin_texel_of<T>(to, x, y, 0) = value;
}
template <class T, class... Mode> BLUEFIN_DEVICE void surf3Dwrite(T value, bluefin_surface to, int x, int y, int z, Mode...) {
    bluefin_texel_of<T>(to, x, y, z) = value;
}
template <class T, class... Mode> BLUEFIN_DEVICE T surf1Dread(bluefin_surface from, int x, Mode...) {
    return bluefin_texel_of<T>(from, x, 0, 0);
}
template <class T, class... Mode> BLUEFIN_DEVICE T surf2Dread(bluefin_surface from, int x, int y, Mode...) {
    return bluefin_texel_of<T>(from, x, y, 0);
}
template <class T, class... Mode> BLUEFIN_DEVICE T surf3Dread(bluefin_surface from, int x, int y, int z, Mode...) {
    return bluefin_texel_of<T>(from, x, y, z);
}
template <class T, class... Mode> BLUEFIN_DEVICE void surf2Dread(T* to, bluefin_surface from, int x, int y, Mode...) {
    *to = bluefin_texel_of<T>(from, x, y, 0);
}

#if BLUEFIN_AMD
// What a variable of the file stands for is known to its host alone, which binds it: the trap's number says so.
enum { cudaTextureType1D = 1, cudaTextureType2D = 2, cudaTextureType3D = 3, hipTextureType1D = 1, hipTextureType2D = 2, hipTextureType3D = 3 };
enum bluefin_read_mode { cudaReadModeElementType = 0, cudaReadModeNormalizedFloat = 1, hipReadModeElementType = 0, hipReadModeNormalizedFloat = 1 };
template <class T, int Kind = 1, int Mode = 0> struct __attribute__((device_builtin_texture_type)) texture {
    int normalized, filterMode, addressMode[3], channelDesc;
};
template <class T, int Mode> struct bluefin_sampled { using type = T; };
template <> struct bluefin_sampled<unsigned char, 1> { using type = float; };
template <> struct bluefin_sampled<unsigned short, 1> { using type = float; };
template <> struct bluefin_sampled<uchar4, 1> { using type = float4; };
#define BLUEFIN_BOUND(name)                                                                                              \
    template <class T, int Kind, int Mode, class... At>                                                                  \
    BLUEFIN_DEVICE typename bluefin_sampled<T, Mode>::type name(texture<T, Kind, Mode>, At...) {                         \
        __asm__ volatile("s_trap 122");                                                                                  \
        return {};                                                                                                       \
    }
BLUEFIN_BOUND(tex1Dfetch)
BLUEFIN_BOUND(tex1D)
BLUEFIN_BOUND(tex2D)
BLUEFIN_BOUND(tex3D)
BLUEFIN_BOUND(tex2DLayered)
#undef BLUEFIN_BOUND
#endif
