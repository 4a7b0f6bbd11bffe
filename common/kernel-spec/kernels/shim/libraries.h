// Types of libraries that hosts call, which stand in variables and signatures that could not be left out: handles of nothing.
#pragma once

#define BLUEFIN_HANDLE(name) using name = struct name##_of_bluefin*;
#define BLUEFIN_CODE(name) enum name : int {};
BLUEFIN_HANDLE(cublasHandle_t)
BLUEFIN_HANDLE(cublasLtHandle_t)
BLUEFIN_HANDLE(cublasLtMatmulDesc_t)
BLUEFIN_HANDLE(cublasLtMatrixLayout_t)
BLUEFIN_HANDLE(cublasLtMatmulPreference_t)
BLUEFIN_HANDLE(cudnnHandle_t)
BLUEFIN_HANDLE(curandGenerator_t)
BLUEFIN_HANDLE(cusolverDnHandle_t)
BLUEFIN_HANDLE(cusparseHandle_t)
BLUEFIN_HANDLE(hipblasHandle_t)
BLUEFIN_HANDLE(hiprandGenerator_t)
BLUEFIN_HANDLE(hipsparseHandle_t)
BLUEFIN_HANDLE(miopenHandle_t)
BLUEFIN_HANDLE(ncclComm_t)
BLUEFIN_HANDLE(rocblas_handle)
BLUEFIN_HANDLE(rocsparse_handle)
BLUEFIN_CODE(cublasComputeType_t)
BLUEFIN_CODE(cublasGemmAlgo_t)
BLUEFIN_CODE(cublasOperation_t)
BLUEFIN_CODE(cublasStatus_t)
BLUEFIN_CODE(cudaDataType)
BLUEFIN_CODE(cudnnStatus_t)
BLUEFIN_CODE(cufftResult)
BLUEFIN_CODE(curandStatus_t)
BLUEFIN_CODE(cusolverStatus_t)
BLUEFIN_CODE(cusparseStatus_t)
BLUEFIN_CODE(hipblasOperation_t)
BLUEFIN_CODE(hipblasStatus_t)
BLUEFIN_CODE(hipDataType)
BLUEFIN_CODE(hiprandStatus_t)
BLUEFIN_CODE(hipsparseStatus_t)
BLUEFIN_CODE(miopenStatus_t)
BLUEFIN_CODE(ncclDataType_t)
BLUEFIN_CODE(ncclResult_t)
BLUEFIN_CODE(rocblas_operation)
BLUEFIN_CODE(rocblas_status)
BLUEFIN_CODE(rocsparse_status)
using cudaDataType_t = cudaDataType;
using cufftHandle = int;
using cufftComplex = float2;
using cufftDoubleComplex = double2;
using cufftReal = float;
using cufftDoubleReal = double;
using cuComplex = float2;
using cuDoubleComplex = double2;
