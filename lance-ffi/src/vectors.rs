//! Query vectors, copied out of the caller's memory.

use std::sync::Arc;

use arrow::buffer::ScalarBuffer;
use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, UInt8Type};
use arrow_array::{Array, ArrayRef, FixedSizeListArray, PrimitiveArray};
use arrow_schema::{DataType, Field};

use crate::abi::{
    LANCE_FFI_FLOAT16 as FLOAT16, LANCE_FFI_FLOAT32 as FLOAT32, LANCE_FFI_FLOAT64 as FLOAT64, LANCE_FFI_UINT8 as UINT8,
};
use crate::dataset::ColumnInfo;
use crate::error::{Error, Result};

#[derive(Debug, Clone)]
pub struct Vectors {
    /// queries x max(1, per_query) x dim values
    pub values: ArrayRef,
    pub queries: usize,
    /// 0: one plain vector a query; n: n vectors a query, against a multivector column.
    pub per_query: usize,
    pub dim: usize,
}

fn finite<T: ArrowPrimitiveType>(values: &ArrayRef, is_finite: impl Fn(T::Native) -> bool) -> Option<usize> {
    values.as_primitive::<T>().values().iter().position(|v| !is_finite(*v))
}

/// Whatever floating-point numbers these are, as those that distances are computed with.
pub fn floats(values: &dyn Array) -> Option<ScalarBuffer<f32>> {
    Some(match values.data_type() {
        DataType::Float32 => values.as_primitive::<Float32Type>().values().clone(),
        DataType::Float16 => {
            let values = values.as_primitive::<Float16Type>().values();
            values.iter().map(|v| v.to_f32()).collect()
        }
        DataType::Float64 => {
            let values = values.as_primitive::<Float64Type>().values();
            values.iter().map(|v| *v as f32).collect()
        }
        _ => return None,
    })
}

impl Vectors {
    /// # Safety
    /// `data` points to `queries * max(1, per_query) * dim` values of `value_type`, or the product is 0.
    pub unsafe fn copy(data: *const u8, value_type: u32, queries: usize, per_query: usize, dim: usize) -> Result<Self> {
        let overflow = || Error::invalid(format!("{queries} queries of dimension {dim} overflow memory"));
        let len = queries
            .checked_mul(per_query.max(1))
            .and_then(|n| n.checked_mul(dim))
            .filter(|n| *n <= isize::MAX as usize / 8)
            .ok_or_else(overflow)?;
        if len > 0 && data.is_null() {
            return Err(Error::invalid("the query vectors are null"));
        }
        // SAFETY: the caller vouches for `len` values; bytes are copied one to one, so alignment does not matter.
        unsafe fn read<T: ArrowPrimitiveType>(data: *const u8, len: usize) -> ArrayRef {
            let mut values = vec![T::Native::default(); len];
            if len > 0 {
                // SAFETY: see above; `values` was just allocated with that size.
                unsafe {
                    std::ptr::copy_nonoverlapping(data, values.as_mut_ptr().cast::<u8>(), len * size_of::<T::Native>());
                }
            }
            Arc::new(PrimitiveArray::<T>::new(values.into(), None))
        }
        // SAFETY: `value_type` is what the caller says `data` holds.
        let values = unsafe {
            match value_type {
                FLOAT16 => read::<Float16Type>(data, len),
                FLOAT32 => read::<Float32Type>(data, len),
                FLOAT64 => read::<Float64Type>(data, len),
                UINT8 => read::<UInt8Type>(data, len),
                other => {
                    return Err(Error::invalid(format!(
                        "value type {other} of the query vectors is unknown"
                    )));
                }
            }
        };
        Ok(Self {
            values,
            queries,
            per_query,
            dim,
        })
    }

    fn stride(&self) -> usize {
        self.per_query.max(1) * self.dim
    }

    /// One query as the flat array that Lance's kernels take.
    pub fn query(&self, at: usize) -> Result<ArrayRef> {
        if at >= self.queries {
            return Err(Error::invalid(format!(
                "query {at} is out of range: there are {}",
                self.queries
            )));
        }
        Ok(self.values.slice(at * self.stride(), self.stride()))
    }

    /// One query as `Scanner::nearest` takes it.
    pub fn nearest_query(&self, at: usize) -> Result<ArrayRef> {
        let flat = self.query(at)?;
        if self.per_query == 0 {
            return Ok(flat);
        }
        self.as_list(flat)
    }

    /// Several plain queries as one batch.
    pub fn batch(&self, from: usize, to: usize) -> Result<ArrayRef> {
        self.as_list(self.values.slice(from * self.stride(), (to - from) * self.stride()))
    }

    fn as_list(&self, flat: ArrayRef) -> Result<ArrayRef> {
        let item = Arc::new(Field::new("item", flat.data_type().clone(), true));
        let list = FixedSizeListArray::try_new(item, self.dim as i32, flat, None)?;
        Ok(Arc::new(list))
    }

    /// The shape fits the column, the values are finite: Lance answers a NaN query with nothing, or as if it were zero.
    pub fn check(&self, column: &ColumnInfo) -> Result<()> {
        if self.dim != column.dim {
            return Err(Error::invalid(format!(
                "the queries have dimension {} and column {:?} has {}",
                self.dim, column.path, column.dim
            )));
        }
        if (self.per_query > 0) != column.multivector {
            return Err(Error::invalid(format!(
                "column {:?} {}: give {}",
                column.path,
                if column.multivector {
                    "holds several vectors a row"
                } else {
                    "holds one vector a row"
                },
                if column.multivector {
                    "multivector queries"
                } else {
                    "one vector a query"
                }
            )));
        }
        if self.values.data_type() != &column.element {
            return Err(Error::invalid(format!(
                "the queries are {} and column {:?} is {}: convert them",
                self.values.data_type(),
                column.path,
                column.element
            )));
        }
        let bad = match self.values.data_type() {
            DataType::Float16 => finite::<Float16Type>(&self.values, |v| v.is_finite()),
            DataType::Float32 => finite::<Float32Type>(&self.values, |v| v.is_finite()),
            DataType::Float64 => finite::<Float64Type>(&self.values, |v| v.is_finite()),
            _ => None,
        };
        match bad {
            None => Ok(()),
            Some(at) => Err(Error::invalid(format!(
                "query {} has a value that is not finite at position {}",
                at / self.stride(),
                at % self.stride()
            ))),
        }
    }
}
