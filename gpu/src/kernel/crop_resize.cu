// crop_resize: from decoded pictures to the rows of a batch. Crop, antialiased bilinear resize, window, mirror,
// normalisation, erased box, layout, element type. find_undecoded: detection of pictures that were never decoded.
//
// One thread makes one output pixel of one picture, and one launch makes a whole batch: blockIdx.z is the picture. The
// weights are those of the host's resize (Pillow's), in single precision and not rounded to 14 bits. The grey level is
// rounded to 8 bits as on the host, so a level sometimes differs by one, and all later steps are equal. This requires
// that the product and the sum of the normalisation are not contracted: compile with --fmad=false.
//
// The file is also valid C++. `crop_resize_on_host` is then the same arithmetic, which tests compare with the host's decoder.

#ifdef __CUDACC__
#define DEVICE __device__ static
#else
#define DEVICE static
#endif

// The two structures match those in mod.rs.
struct Picture {
    // Top left corner of the crop; interleaved RGB.
    const unsigned char *pixels;
    // Bytes from one row to the next.
    unsigned long long pitch;
    unsigned int crop_w, crop_h;
    // Size of the resized crop.
    unsigned int resized_w, resized_h;
    // Corner of the output window in the resized picture. Pixels outside of the picture are black.
    int window_x, window_y;
    unsigned int flip;
    // Row of the batch.
    unsigned int row;
    // Set to 1 if a row of the crop was not written up to its end.
    unsigned char *undecoded;
    // Box of the output that has a value per channel in place of the picture, as it is; none if it has no width.
    unsigned int erased_x, erased_y, erased_w, erased_h;
    float erased[3];
    unsigned int unused;
};

// Word that fills the memory for pixels before pictures are decoded. Its colours have a period of 4 pixels, which real pictures
// hardly ever have. A crop that is one pixel wide may look like it; then the host decodes it.
#define BLANK 0xc33ca55au

struct Batch {
    void *out;
    // Size of the output pictures.
    unsigned int w, h;
    // 0 uint8, 1 float16, 2 bfloat16, 3 float32.
    unsigned int dtype;
    // 0 planes (NCHW), 1 interleaved (NHWC).
    unsigned int interleaved;
    // value = grey level * scale + offset, per channel; not for uint8.
    float scale[3], offset[3];
};

DEVICE float larger(float a, float b) { return a > b ? a : b; }

DEVICE unsigned int bits_of(float value) {
    union {
        float value;
        unsigned int bits;
    } both;
    both.value = value;
    return both.bits;
}

// Rounds to nearest, ties to even. Finite values only, which grey levels always give.
DEVICE unsigned short bfloat16_of(float value) {
    unsigned int bits = bits_of(value);
    return (unsigned short)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

DEVICE unsigned short float16_of(float value) {
    unsigned int bits = bits_of(value), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude >= 0x47800000u) return (unsigned short)(sign | 0x7c00u);
    // Below 2^-14 the exponent is fixed, so the number of significant bits shrinks with the value.
    unsigned int exponent = magnitude >> 23, mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    if (exponent < 102u) return (unsigned short)sign;
    unsigned int dropped = exponent < 113u ? 126u - exponent : 13u;
    unsigned int kept = mantissa >> dropped, rest = mantissa & ((1u << dropped) - 1u), half = 1u << (dropped - 1u);
    if (rest > half || (rest == half && (kept & 1u))) kept++;
    // The leading bit of a normal number adds one to the exponent, and so does a carry.
    return (unsigned short)(sign | (exponent < 113u ? kept : ((exponent - 113u) << 10) + kept));
}

// Source samples that one output sample blends.
struct Taps {
    int first, end;
    float center, slope, sum;
};

DEVICE float weight(const struct Taps *taps, int sample) {
    float distance = ((float)sample + 0.5f - taps->center) * taps->slope;
    return larger(0.0f, 1.0f - (distance < 0.0f ? -distance : distance));
}

DEVICE struct Taps taps_of(unsigned int input, unsigned int output, int at) {
    float scale = (float)input / (float)output;
    // The triangle is as wide as a source sample when enlarging, as an output sample when shrinking.
    float support = larger(scale, 1.0f);
    struct Taps taps;
    taps.center = ((float)at + 0.5f) * scale;
    taps.slope = 1.0f / support;
    taps.first = (int)larger(taps.center - support + 0.5f, 0.0f);
    if (taps.first > (int)input - 1) taps.first = (int)input - 1;
    taps.end = (int)(taps.center + support + 0.5f);
    if (taps.end > (int)input) taps.end = (int)input;
    if (taps.end < taps.first + 1) taps.end = taps.first + 1;
    taps.sum = 0.0f;
    for (int sample = taps.first; sample < taps.end; sample++) taps.sum += weight(&taps, sample);
    return taps;
}

// Computes the grey levels of one output pixel.
DEVICE void blend(const struct Picture *picture, int at_x, int at_y, float *levels) {
    levels[0] = levels[1] = levels[2] = 0.0f;
    if (at_x < 0 || at_y < 0 || at_x >= (int)picture->resized_w || at_y >= (int)picture->resized_h) return;
    struct Taps columns = taps_of(picture->crop_w, picture->resized_w, at_x);
    struct Taps rows = taps_of(picture->crop_h, picture->resized_h, at_y);
    for (int y = rows.first; y < rows.end; y++) {
        const unsigned char *row = picture->pixels + (unsigned long long)y * picture->pitch;
        float sums[3] = {0.0f, 0.0f, 0.0f}, down = weight(&rows, y);
        for (int x = columns.first; x < columns.end; x++) {
            float across = weight(&columns, x);
            for (int c = 0; c < 3; c++) sums[c] += across * (float)row[3 * x + c];
        }
        for (int c = 0; c < 3; c++) levels[c] += down * sums[c];
    }
    for (int c = 0; c < 3; c++) levels[c] = (float)(int)(levels[c] / (columns.sum * rows.sum) + 0.5f);
}

DEVICE void make_pixel(const struct Picture *pictures, const struct Batch *batch, unsigned int n, unsigned int x, unsigned int y) {
    const struct Picture *picture = pictures + n;
    unsigned int column = picture->flip ? batch->w - 1u - x : x;
    // Places before the box are large unsigned numbers.
    int is_erased = x - picture->erased_x < picture->erased_w && y - picture->erased_y < picture->erased_h;
    float levels[3];
    if (!is_erased) blend(picture, picture->window_x + (int)column, picture->window_y + (int)y, levels);
    unsigned long long plane = (unsigned long long)batch->w * batch->h, at = (unsigned long long)y * batch->w + x;
    for (unsigned int c = 0; c < 3; c++) {
        unsigned long long i = plane * 3u * picture->row + (batch->interleaved ? at * 3u + c : plane * c + at);
        float level = is_erased ? picture->erased[c] : levels[c];
        float value = is_erased ? level : level * batch->scale[c] + batch->offset[c];
        switch (batch->dtype) {
            case 0: ((unsigned char *)batch->out)[i] = (unsigned char)level; break;
            case 1: ((unsigned short *)batch->out)[i] = float16_of(value); break;
            case 2: ((unsigned short *)batch->out)[i] = bfloat16_of(value); break;
            default: ((float *)batch->out)[i] = value;
        }
    }
}

DEVICE int is_blank(const unsigned char *row, unsigned int from, unsigned int end) {
    for (unsigned int i = from; i < end; i++)
        if (row[i] != (unsigned char)(BLANK >> 8u * ((unsigned long long)(row + i) & 3u))) return 0;
    return 1;
}

// Checks the last 4 pixels of every `step`th row of the crop, starting with row `first`. A decoder that stops early, even within a
// row of blocks, has not written them.
DEVICE void find_blank_rows(const struct Picture *picture, unsigned int first, unsigned int step) {
    unsigned int from = picture->crop_w > 4u ? (picture->crop_w - 4u) * 3u : 0u;
    for (unsigned int y = first; y < picture->crop_h; y += step)
        if (is_blank(picture->pixels + (unsigned long long)y * picture->pitch, from, picture->crop_w * 3u)) *picture->undecoded = 1;
}

#ifdef __CUDACC__
extern "C" __global__ void find_undecoded(const struct Picture *pictures) {
    find_blank_rows(pictures + blockIdx.x, threadIdx.x, blockDim.x);
}

extern "C" __global__ void crop_resize(const struct Picture *pictures, const struct Batch batch) {
    unsigned int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < batch.w && y < batch.h) make_pixel(pictures, &batch, blockIdx.z, x, y);
}
#else
extern "C" void find_undecoded_on_host(const struct Picture *pictures, unsigned int count) {
    for (unsigned int n = 0; n < count; n++) find_blank_rows(pictures + n, 0, 1);
}

extern "C" void crop_resize_on_host(const struct Picture *pictures, const struct Batch *batch, unsigned int count) {
    for (unsigned int n = 0; n < count; n++)
        for (unsigned int y = 0; y < batch->h; y++)
            for (unsigned int x = 0; x < batch->w; x++) make_pixel(pictures, batch, n, x, y);
}
#endif
