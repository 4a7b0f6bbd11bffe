/* Matrix product on the CPU: FP32 or BF16, batched, either operand transposed, row or column major, one thread.
 *
 * Exactly one solver is compiled, chosen by -DSOLVER_REFERENCE, -DSOLVER_PACKED or -DSOLVER_STREAM. No size is baked
 * in, so one artifact serves every problem. A column-major product is the row-major product of the swapped operands
 * (the memory of C then holds C^T = B^T A^T), which is all that the solvers see.
 */
#include "host.h"

/* The sizes, in the order in which every solver's launch passes them. */
#define SIZES                                                                                                          \
    int32_t m, int32_t n, int32_t k, int32_t batch, int32_t trans_a, int32_t trans_b, int32_t col_major

/* The reference reads elements where they lie, the solvers work on floats. */
#ifdef SOLVER_REFERENCE
typedef element number;
#else
typedef float number;
#endif

/* One row-major product: out (rows x cols) = left (rows x depth) * right (depth x cols). Steps are in elements. */
struct product {
    const number *left, *right;
    number *out;
    int64_t rows, cols, depth;
    int64_t left_row, left_col, right_row, right_col;
};

static struct product product_of(const number *a, const number *b, number *c, int64_t at, SIZES)
{
    struct product p = {.out = c + at * m * n, .depth = k};
    (void)batch;
    a += at * m * k, b += at * k * n;
    p.left = col_major ? b : a, p.right = col_major ? a : b;
    p.rows = col_major ? n : m, p.cols = col_major ? m : n;
    const int left_turned = col_major ? trans_b : trans_a, right_turned = col_major ? trans_a : trans_b;
    p.left_row = left_turned ? 1 : p.depth, p.left_col = left_turned ? p.rows : 1;
    p.right_row = right_turned ? 1 : p.cols, p.right_col = right_turned ? p.depth : 1;
    return p;
}

#ifdef SOLVER_REFERENCE
/* Sums that run side by side. */
enum { ROW = 256, LANES = 16 };

/* The definition of the operation, summed in double: a row of sums at once where the right matrix has contiguous
 * rows, one dot product after the other where it has contiguous columns. */
void gemm_reference(const element *a, const element *b, element *c, SIZES)
{
    for (int64_t at = 0; at < batch; at++) {
        const struct product p = product_of(a, b, c, at, m, n, k, batch, trans_a, trans_b, col_major);
        for (int64_t i = 0; i < p.rows; i++) {
            const element *left = p.left + i * p.left_row;
            element *out = p.out + i * p.cols;
            for (int64_t col = 0; p.right_col == 1 && col < p.cols; col += ROW) {
                const int64_t len = least(ROW, p.cols - col);
                double sum[ROW] = {0};
                for (int64_t l = 0; l < p.depth; l++) {
                    const double s = TO_FLOAT(left[l * p.left_col]);
                    const element *right = p.right + l * p.right_row + col;
                    for (int64_t j = 0; j < len; j++) sum[j] += s * TO_FLOAT(right[j]);
                }
                for (int64_t j = 0; j < len; j++) out[col + j] = FROM_FLOAT((float)sum[j]);
            }
            for (int64_t j = 0; p.right_col != 1 && j < p.cols; j++) {
                const element *right = p.right + j * p.right_col;
                double lane[LANES] = {0}, sum = 0.0;
                int64_t l = 0;
                for (; l + LANES <= p.depth; l += LANES)
                    for (int64_t e = 0; e < LANES; e++) 
                        lane[e] += (double)TO_FLOAT(left[(l + e) * p.left_col]) * TO_FLOAT(right[l + e]);
                for (; l < p.depth; l++) sum += (double)TO_FLOAT(left[l * p.left_col]) * TO_FLOAT(right[l]);
                for (int64_t e = 0; e < LANES; e++) sum += lane[e];
                out[j] = FROM_FLOAT((float)sum);
            }
        }
    }
}
#endif

#if defined(SOLVER_PACKED) || defined(SOLVER_STREAM)
#define TILE_ROWS TM
#define TILE_VECTORS TV
#include "tile_host.h"

typedef void solver(const float *, const float *, float *, void *, SIZES);

/* Solves on copies of the matrices at the front of the workspace, where they are no floats. */
static inline void solve_on_floats(solver *solve, const element *a, const element *b, element *c, void *workspace, SIZES)
{
    if (IS_FLOAT) {
        solve((const float *)a, (const float *)b, (float *)c, workspace, m, n, k, batch, trans_a, trans_b, col_major);
        return;
    }
    const int64_t of_a = (int64_t)batch * m * k, of_b = (int64_t)batch * k * n, of_c = (int64_t)batch * m * n;
    float *copy_a = workspace, *copy_b = copy_a + lines(of_a), *copy_c = copy_b + lines(of_b);
    for (int64_t i = 0; i < of_a; i++) copy_a[i] = TO_FLOAT(a[i]);
    for (int64_t i = 0; i < of_b; i++) copy_b[i] = TO_FLOAT(b[i]);
    solve(copy_a, copy_b, copy_c, copy_c + lines(of_c), m, n, k, batch, trans_a, trans_b, col_major);
    for (int64_t i = 0; i < of_c; i++) c[i] = FROM_FLOAT(copy_c[i]);
}

/* Adds a tile to the part of the output that exists, or writes it there. */
static inline void put_part(tile acc, float *out, int64_t stride, int64_t rows, int64_t cols, int add)
{
    if (rows >= TM && cols >= TV * VL) {
        put_tile(acc, out, stride, add);
        return;
    }
    for (int64_t i = 0; i < least(TM, rows); i++)
        for (int64_t j = 0; j < least(TV * VL, cols); j++) {
            const float v = acc[i][j / VL][j % VL];
            out[i * stride + j] = add ? out[i * stride + j] + v : v;
        }
}
#endif

#ifdef SOLVER_PACKED
/* Goto's scheme. A panel of KC rows of the right matrix is packed NC columns wide, in strips as wide as a register
 * tile of TM rows x TV vectors; MC rows of the left matrix are packed in strips of TM. The inner loop then reads two
 * streams, whatever the operands' layout, and a tail is a strip filled up with repeated rows or columns that are
 * dropped. The left block is to stay in the second-level cache, a strip of the right one in the first. */
static void run_tile(const float *restrict left, const float *restrict right, int64_t depth, float *out, int64_t stride,
                     int64_t rows, int64_t cols, int add)
{
    tile acc;
    clear_tile(acc);
    add_strips(acc, left, right, depth);
    put_part(acc, out, stride, rows, cols, add);
}

/* Packs `count` rows (or columns) `step` apart, `depth` elements of each `inner` apart, into strips of `wide`. */
static inline void pack(float *restrict dst, const float *restrict src, int64_t count, int64_t step, int64_t depth,
                        int64_t inner, int64_t wide)
{
    for (int64_t s = 0; s < count; s += wide, dst += depth * wide)
        if (step == 1 && count - s >= wide) {
            for (int64_t p = 0; p < depth; p++)
                for (int64_t i = 0; i < wide; i++) dst[p * wide + i] = src[s + p * inner + i];
        } else {
            for (int64_t i = 0; i < wide; i++) {
                const float *line = src + least(s + i, count - 1) * step;
                for (int64_t p = 0; p < depth; p++) dst[p * wide + i] = line[p * inner];
            }
        }
}

static void packed(const float *a, const float *b, float *c, void *workspace, SIZES)
{
    enum { WIDE = TV * VL };
    float *right = workspace, *left = right + KC * ((NC + WIDE - 1) / WIDE * WIDE);
    for (int64_t at = 0; at < batch; at++) {
        const struct product t = product_of(a, b, c, at, m, n, k, batch, trans_a, trans_b, col_major);
        for (int64_t j0 = 0; j0 < t.cols; j0 += NC)
        for (int64_t p0 = 0; p0 < t.depth; p0 += KC) {
            const int64_t cols = least(NC, t.cols - j0), depth = least(KC, t.depth - p0);
            pack(right, t.right + p0 * t.right_row + j0 * t.right_col, cols, t.right_col, depth, t.right_row, WIDE);
            for (int64_t i0 = 0; i0 < t.rows; i0 += MC) {
                const int64_t rows = least(MC, t.rows - i0);
                pack(left, t.left + i0 * t.left_row + p0 * t.left_col, rows, t.left_row, depth, t.left_col, TM);
                for (int64_t j = 0; j < cols; j += WIDE)
                for (int64_t i = 0; i < rows; i += TM)
                    run_tile(left + i * depth, right + j * depth, depth, t.out + (i0 + i) * t.cols + j0 + j, t.cols,
                             rows - i, cols - j, p0 > 0);
            }
        }
    }
}

void gemm_packed(const element *a, const element *b, element *c, void *workspace, SIZES)
{
    solve_on_floats(packed, a, b, c, workspace, m, n, k, batch, trans_a, trans_b, col_major);
}
#endif

#ifdef SOLVER_STREAM
/* No packing: both matrices are read where they lie, which is best when one of them is so small that no packed
 * element would be used often. Rows of the right matrix must be contiguous; the left one may be turned. KC rows of
 * the right matrix are done at a time. ORDER says what is kept near: 0 a strip of the right matrix, 1 rows of the
 * left one. */
static void run_tile(const struct product *t, int64_t i0, int64_t j0, int64_t p0, int64_t depth)
{
    const int64_t rows = t->rows - i0, cols = t->cols - j0;
    const float *lines[TM];
    tile acc;
    clear_tile(acc);
    UNROLL for (int i = 0; i < TM; i++)
        lines[i] = t->left + (i0 + least(i, rows - 1)) * t->left_row + p0 * t->left_col;
    const float *right = t->right + p0 * t->cols + j0;
    if (cols >= TV * VL) {
        const int64_t step = t->left_col;
        for (int64_t p = 0; p < depth; p++, right += t->cols) add_products(acc, lines, p * step, right);
        put_part(acc, t->out + i0 * t->cols + j0, t->cols, rows, cols, p0 > 0);
        return;
    }
    /* The last columns, too few for whole vectors: nothing past the end of a row may be read. */
    for (int64_t i = 0; i < least(TM, rows); i++) {
        float sum[TV * VL] = {0}, *out = t->out + (i0 + i) * t->cols + j0;
        for (int64_t p = 0; p < depth; p++)
            for (int64_t j = 0; j < cols; j++) sum[j] += lines[i][p * t->left_col] * right[p * t->cols + j];
        for (int64_t j = 0; j < cols; j++) out[j] = p0 > 0 ? out[j] + sum[j] : sum[j];
    }
}

static void stream(const float *a, const float *b, float *c, void *workspace, SIZES)
{
    (void)workspace;
    for (int64_t at = 0; at < batch; at++) {
        const struct product t = product_of(a, b, c, at, m, n, k, batch, trans_a, trans_b, col_major);
        const int64_t down = (t.rows + TM - 1) / TM, across = (t.cols + TV * VL - 1) / (TV * VL);
        for (int64_t p = 0; p < t.depth; p += KC)
            for (int64_t s = 0; s < down * across; s++) {
                const int64_t i = ORDER ? s / across : s % down, j = ORDER ? s % across : s / down;
                run_tile(&t, i * TM, j * TV * VL, p, least(KC, t.depth - p));
            }
    }
}

void gemm_stream(const element *a, const element *b, element *c, void *workspace, SIZES)
{
    solve_on_floats(stream, a, b, c, workspace, m, n, k, batch, trans_a, trans_b, col_major);
}
#endif
