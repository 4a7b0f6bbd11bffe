//! The rules of a check, and how bad it is to break them.

bluefin_common::check_rules! {
    Torn "torn" Error "The file is no CSV file from this line on: nothing of it is read"
    Column "column" Error "A column is missing or there twice"
    UnknownColumn "unknown-column" Note "A column that is not known: it is kept as it is"
    NoGfx "no-gfx" Note "A file from before there was a column gfx: aiter infers it from the number of compute units"
    Cells "cells" Error "A row has more cells than there are columns, or lacks some that it needs"
    Short "short" Note "A row ends before columns that may be empty"
    Value "value" Error "A cell is not of its column's type"
    Duplicate "duplicate" Error "A key is there twice: aiter raises an error when it puts files together, or when a look-up reads them"
    Repeated "repeated" Note "A shape is there twice in an untuned file: it is tuned once"
    Lost "lost" Error "A cell costs all rows: as its column is of several types look-ups compare text, or they read nothing of the table"
    Unreachable "unreachable" Warning "No look-up has this key, so the row is never used"
    Dead "dead" Note "No look-up takes the row: they ask for rounded numbers of tokens, leave some tags out, and take the faster of two rows"
    Cus "cus" Warning "The row is for another number of compute units than the GPU has"
    Time "time" Error "The time is not positive and finite: the row was never measured, and would win every comparison"
    ErrorRatio "error-ratio" Warning "More of the output is wrong than the tuner takes"
    Tflops "tflops" Warning "tflops do not follow from the shape and us"
    Bandwidth "bw" Warning "bw does not follow from the shape and us"
}
