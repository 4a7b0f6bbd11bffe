//! What only CUDA has, or does in its own way.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr;

use bluefin_common::tensor::{RANK, Tensor};
use cudarc::driver::sys::{
    CUdevice_attribute_enum as Attribute, CUfunction_attribute_enum, CUjit_option_enum, CUjitInputType_enum,
};
use libloading::Library;

use super::super::DeviceError;
use super::super::bindings::Map;
use super::calls::{Attributes, Handle, driver_text, needed, optional};
use super::error::CallError;

/// Shared memory of a block that needs no leave, in bytes.
const USUAL_SHARED: u32 = 48 << 10;
/// `CU_TENSOR_MAP_DATA_TYPE_TFLOAT32` and `CU_TENSOR_MAP_L2_PROMOTION_L2_128B`.
const TF32: c_int = 11;
const L2_128_BYTES: c_int = 2;
/// Bytes kept of what the driver's compiler says.
const LOG: usize = 4096;

/// Calls of CUDA alone.
pub(super) struct Special {
    retain: unsafe extern "C" fn(*mut Handle, c_int) -> c_int,
    set_current: unsafe extern "C" fn(Handle) -> c_int,
    error_name: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int,
    error_text: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int,
    load: unsafe extern "C" fn(*mut Handle, *const c_void, c_uint, *mut c_int, *mut *mut c_void) -> c_int,
    set_function_attribute: unsafe extern "C" fn(Handle, c_int, c_int) -> c_int,
    link_create: unsafe extern "C" fn(c_uint, *mut c_int, *mut *mut c_void, *mut Handle) -> c_int,
    link_add: LinkAdd,
    link_complete: unsafe extern "C" fn(Handle, *mut *const u8, *mut usize) -> c_int,
    link_destroy: unsafe extern "C" fn(Handle) -> c_int,
    /// From CUDA 12 on.
    encode: Option<Encode>,
}

/// A map, the type of its elements, its rank, an address, elements of each dimension, bytes between them, elements of a block, which of
/// them, and how it is interleaved, swizzled, fetched and padded.
type Encode = unsafe extern "C" fn(
    *mut Map,
    c_int,
    c_uint,
    *mut c_void,
    *const u64,
    *const u64,
    *const u32,
    *const u32,
    c_int,
    c_int,
    c_int,
    c_int,
) -> c_int;

/// A state, a kind of input, bytes and how many, a name, and options: their number, names and values.
type LinkAdd = unsafe extern "C" fn(
    Handle,
    c_int,
    *const c_void,
    usize,
    *const c_char,
    c_uint,
    *mut c_int,
    *mut *mut c_void,
) -> c_int;

impl Special {
    pub(super) fn resolve(library: &Library) -> Result<Self, &'static str> {
        // SAFETY: the signatures are cuda.h's; whoever holds the table holds the library.
        unsafe {
            Ok(Self {
                retain: needed(library, "cuDevicePrimaryCtxRetain")?,
                set_current: needed(library, "cuCtxSetCurrent")?,
                error_name: needed(library, "cuGetErrorName")?,
                error_text: needed(library, "cuGetErrorString")?,
                load: needed(library, "cuModuleLoadDataEx")?,
                set_function_attribute: needed(library, "cuFuncSetAttribute")?,
                link_create: needed(library, "cuLinkCreate_v2")?,
                link_add: needed(library, "cuLinkAddData_v2")?,
                link_complete: needed(library, "cuLinkComplete")?,
                link_destroy: needed(library, "cuLinkDestroy")?,
                encode: optional(library, "cuTensorMapEncodeTiled"),
            })
        }
    }

    pub(super) fn describe(&self, code: i32) -> String {
        let text = |call: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int| {
            let mut text = ptr::null();
            // SAFETY: `text` is written; what it points to is constant.
            unsafe {
                call(code, &mut text);
                driver_text(text)
            }
        };
        format!("{} ({})", text(self.error_name), text(self.error_text))
    }

    /// The primary context, which lives until the process ends.
    pub(super) fn open_device(&self, ordinal: i32) -> i32 {
        let mut context = ptr::null_mut();
        // SAFETY: devices are named by their ordinals; the context is retained and never released.
        unsafe {
            match (self.retain)(&mut context, ordinal) {
                0 => (self.set_current)(context),
                code => code,
            }
        }
    }

    /// Loads `image`, which ends with a zero byte; the code, and what the driver's compiler says.
    pub(super) fn load(&self, module: &mut Handle, image: &[u8]) -> (i32, String) {
        let mut log = [0_u8; LOG];
        let mut options = [
            CUjit_option_enum::CU_JIT_ERROR_LOG_BUFFER as c_int,
            CUjit_option_enum::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES as c_int,
        ];
        let mut values = [log.as_mut_ptr().cast::<c_void>(), ptr::without_provenance_mut(LOG)];
        // SAFETY: the image ends, and there are two options with their values.
        let code = unsafe { (self.load)(module, image.as_ptr().cast(), 2, options.as_mut_ptr(), values.as_mut_ptr()) };
        let said: Vec<u8> = log.iter().copied().take_while(|byte| *byte != 0).collect();
        (code, String::from_utf8_lossy(&said).trim().to_string())
    }

    /// Compiles PTX for the device of this thread.
    pub(super) fn translate(&self, ptx: &[u8]) -> Option<Vec<u8>> {
        let mut text = ptx.to_vec();
        text.push(0);
        let mut link = ptr::null_mut();
        // SAFETY: a handle is written, and no options are read.
        if unsafe { (self.link_create)(0, ptr::null_mut(), ptr::null_mut(), &mut link) } != 0 {
            return None;
        }
        let (mut image, mut bytes) = (ptr::null(), 0);
        // SAFETY: the text ends with its zero and lives for the call; the image is the link's, which is destroyed after it
        // was copied.
        unsafe {
            let (kind, none) = (CUjitInputType_enum::CU_JIT_INPUT_PTX as c_int, ptr::null_mut());
            let added = (self.link_add)(
                link,
                kind,
                text.as_ptr().cast(),
                text.len(),
                c"kernel".as_ptr(),
                0,
                none,
                ptr::null_mut(),
            );
            let made = added == 0 && (self.link_complete)(link, &mut image, &mut bytes) == 0 && !image.is_null();
            let image = made.then(|| std::slice::from_raw_parts(image, bytes).to_vec());
            (self.link_destroy)(link);
            image
        }
    }

    /// A map of a tensor whose first element is at `address`, as Triton's launcher makes it; `check` says what a code is.
    pub(super) fn tensor_map(
        &self,
        tensor: &Tensor,
        address: u64,
        check: impl Fn(c_int) -> Result<(), CallError>,
    ) -> Result<Map, DeviceError> {
        let refused = |reason: &str| DeviceError::Launch(format!("argument: found a tensor map, {reason}"));
        let encode = self.encode.ok_or_else(|| refused("which this driver does not know: expected CUDA 12"))?;
        let layout = tensor.map.ok_or_else(|| refused("of which no compiler said how it is read"))?;
        let rank = usize::from(tensor.rank);
        if rank == 0 || rank > RANK {
            return Err(refused(&format!("of rank {rank}, expected 1 to {RANK}")));
        }
        // CUDA counts dimensions from the last one on.
        let mut shape: Vec<u64> = tensor.shape.into_iter().take(rank).rev().collect();
        if let Some(first) = shape.first_mut().filter(|_| layout.padded) {
            *first *= 2;
        }
        let mut strides: Vec<u64> = tensor.strides.into_iter().take(rank).rev().skip(1).collect();
        strides.iter_mut().for_each(|stride| *stride = stride.saturating_mul(layout.size.into()));
        let block: Vec<u32> = layout.block.into_iter().take(rank).rev().collect();
        let padding = c_int::from(tensor.nan);
        let element = if tensor.tf32 { TF32 } else { layout.element.into() };
        let mut map = Map([0; 16]);
        // SAFETY: the lists have as many values as the rank says, but for the strides, of which one less is read.
        let code = unsafe {
            encode(
                &mut map,
                element,
                tensor.rank.into(),
                ptr::with_exposed_provenance_mut(usize::try_from(address).unwrap_or(usize::MAX)),
                shape.as_ptr(),
                strides.as_ptr(),
                block.as_ptr(),
                [1; RANK].as_ptr(),
                0,
                layout.swizzle.into(),
                L2_128_BYTES,
                padding,
            )
        };
        check(code)?;
        Ok(map)
    }

    /// Lets `function` use more shared memory than the usual.
    pub(super) fn allow_shared(&self, function: Handle, bytes: u32) -> i32 {
        if bytes <= USUAL_SHARED {
            return 0;
        }
        let attribute = CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as c_int;
        // SAFETY: the function is one of a loaded module.
        unsafe { (self.set_function_attribute)(function, attribute, c_int::try_from(bytes).unwrap_or(c_int::MAX)) }
    }
}

/// The last driver that marks maps of small tensors in a way that Triton's launcher and CUTLASS undo.
pub(super) const MARKS_SMALL: c_int = 13_010;

/// `map` as that of a larger one.
pub(super) fn unmarked(mut map: Map, tensor: &Tensor) -> Map {
    let spans = tensor.shape.iter().zip(&tensor.strides).take(tensor.rank.into());
    let last = spans.map(|(size, stride)| size.saturating_sub(1).saturating_mul(*stride)).fold(0, u64::saturating_add);
    let bytes = last.saturating_mul(tensor.map.map_or(1, |layout| layout.size).into()) + 1;
    if bytes < 128 << 10 {
        map.0[1] &= !(1 << 21);
    }
    map
}

/// Numbers of the attributes that are asked for.
pub(super) const ATTRIBUTES: Attributes = Attributes {
    units: Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT as c_int,
    clock: Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE as c_int,
    memory_clock: Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE as c_int,
    cache: Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE as c_int,
    major: Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as c_int,
    minor: Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as c_int,
};
