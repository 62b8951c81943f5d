//go:build linux && cgo && (amd64 || arm64)

// Each function of NVML that go-nvml calls is a jump through a slot, which gpubuild_nvml_open fills by dlsym. go-nvml leaves them undefined: a
// program that is linked with -z now (Ubuntu's gcc does that) or runs on musl would not start where there is no driver, and a function that an
// older driver lacks would end the caller. TestEveryFunctionOfNVML fails where go-nvml calls one that is not listed.
#include <dlfcn.h>
#include <string.h>

#define NAMES \
	"ComputeInstanceDestroy,ComputeInstanceGetInfo,ComputeInstanceGetInfo_v2,DeviceClearAccountingPids,DeviceClearCpuAffinity,DeviceClearEccErrorCounts," \
	"DeviceClearFieldValues,DeviceCreateGpuInstance,DeviceCreateGpuInstanceWithPlacement,DeviceDiscoverGpus,DeviceFreezeNvLinkUtilizationCounter," \
	"DeviceGetAPIRestriction,DeviceGetAccountingBufferSize,DeviceGetAccountingMode,DeviceGetAccountingPids,DeviceGetAccountingStats,DeviceGetActiveVgpus," \
	"DeviceGetAdaptiveClockInfoStatus,DeviceGetApplicationsClock,DeviceGetArchitecture,DeviceGetAttributes,DeviceGetAttributes_v2,DeviceGetAutoBoostedClocksEnabled," \
	"DeviceGetBAR1MemoryInfo,DeviceGetBoardId,DeviceGetBoardPartNumber,DeviceGetBrand,DeviceGetBridgeChipInfo,DeviceGetBusType,DeviceGetC2cModeInfoV," \
	"DeviceGetCapabilities,DeviceGetClkMonStatus,DeviceGetClock,DeviceGetClockInfo,DeviceGetClockOffsets,DeviceGetComputeInstanceId,DeviceGetComputeMode," \
	"DeviceGetComputeRunningProcesses,DeviceGetComputeRunningProcesses_v2,DeviceGetComputeRunningProcesses_v3,DeviceGetConfComputeGpuAttestationReport," \
	"DeviceGetConfComputeGpuCertificate,DeviceGetConfComputeMemSizeInfo,DeviceGetConfComputeProtectedMemoryUsage,DeviceGetCoolerInfo,DeviceGetCount," \
	"DeviceGetCount_v2,DeviceGetCpuAffinity,DeviceGetCpuAffinityWithinScope,DeviceGetCreatableVgpus,DeviceGetCudaComputeCapability,DeviceGetCurrPcieLinkGeneration," \
	"DeviceGetCurrPcieLinkWidth,DeviceGetCurrentClockFreqs,DeviceGetCurrentClocksEventReasons,DeviceGetCurrentClocksThrottleReasons,DeviceGetDecoderUtilization," \
	"DeviceGetDefaultApplicationsClock,DeviceGetDefaultEccMode,DeviceGetDetailedEccErrors,DeviceGetDeviceHandleFromMigDeviceHandle,DeviceGetDisplayActive," \
	"DeviceGetDisplayMode,DeviceGetDramEncryptionMode,DeviceGetDriverModel,DeviceGetDriverModel_v2,DeviceGetDynamicPstatesInfo,DeviceGetEccMode," \
	"DeviceGetEncoderCapacity,DeviceGetEncoderSessions,DeviceGetEncoderStats,DeviceGetEncoderUtilization,DeviceGetEnforcedPowerLimit,DeviceGetFBCSessions," \
	"DeviceGetFBCStats,DeviceGetFanControlPolicy_v2,DeviceGetFanSpeed,DeviceGetFanSpeedRPM,DeviceGetFanSpeed_v2,DeviceGetFieldValues,DeviceGetGpcClkMinMaxVfOffset," \
	"DeviceGetGpcClkVfOffset,DeviceGetGpuFabricInfo,DeviceGetGpuFabricInfoV,DeviceGetGpuInstanceById,DeviceGetGpuInstanceId,DeviceGetGpuInstancePossiblePlacements," \
	"DeviceGetGpuInstancePossiblePlacements_v2,DeviceGetGpuInstanceProfileInfo,DeviceGetGpuInstanceProfileInfoV,DeviceGetGpuInstanceRemainingCapacity," \
	"DeviceGetGpuInstances,DeviceGetGpuMaxPcieLinkGeneration,DeviceGetGpuOperationMode,DeviceGetGraphicsRunningProcesses,DeviceGetGraphicsRunningProcesses_v2," \
	"DeviceGetGraphicsRunningProcesses_v3,DeviceGetGridLicensableFeatures,DeviceGetGridLicensableFeatures_v2,DeviceGetGridLicensableFeatures_v3," \
	"DeviceGetGridLicensableFeatures_v4,DeviceGetGspFirmwareMode,DeviceGetGspFirmwareVersion,DeviceGetHandleByIndex,DeviceGetHandleByIndex_v2," \
	"DeviceGetHandleByPciBusId,DeviceGetHandleByPciBusId_v2,DeviceGetHandleBySerial,DeviceGetHandleByUUID,DeviceGetHandleByUUIDV,DeviceGetHostVgpuMode," \
	"DeviceGetIndex,DeviceGetInforomConfigurationChecksum,DeviceGetInforomImageVersion,DeviceGetInforomVersion,DeviceGetIrqNum,DeviceGetJpgUtilization," \
	"DeviceGetLastBBXFlushTime,DeviceGetMPSComputeRunningProcesses,DeviceGetMPSComputeRunningProcesses_v2,DeviceGetMPSComputeRunningProcesses_v3," \
	"DeviceGetMarginTemperature,DeviceGetMaxClockInfo,DeviceGetMaxCustomerBoostClock,DeviceGetMaxMigDeviceCount,DeviceGetMaxPcieLinkGeneration," \
	"DeviceGetMaxPcieLinkWidth,DeviceGetMemClkMinMaxVfOffset,DeviceGetMemClkVfOffset,DeviceGetMemoryAffinity,DeviceGetMemoryBusWidth,DeviceGetMemoryErrorCounter," \
	"DeviceGetMemoryInfo,DeviceGetMemoryInfo_v2,DeviceGetMigDeviceHandleByIndex,DeviceGetMigMode,DeviceGetMinMaxClockOfPState,DeviceGetMinMaxFanSpeed," \
	"DeviceGetMinorNumber,DeviceGetModuleId,DeviceGetMultiGpuBoard,DeviceGetName,DeviceGetNumFans,DeviceGetNumGpuCores,DeviceGetNumaNodeId," \
	"DeviceGetNvLinkCapability,DeviceGetNvLinkErrorCounter,DeviceGetNvLinkRemoteDeviceType,DeviceGetNvLinkRemotePciInfo,DeviceGetNvLinkRemotePciInfo_v2," \
	"DeviceGetNvLinkState,DeviceGetNvLinkUtilizationControl,DeviceGetNvLinkUtilizationCounter,DeviceGetNvLinkVersion,DeviceGetNvlinkBwMode," \
	"DeviceGetNvlinkSupportedBwModes,DeviceGetOfaUtilization,DeviceGetP2PStatus,DeviceGetPciInfo,DeviceGetPciInfoExt,DeviceGetPciInfo_v2,DeviceGetPciInfo_v3," \
	"DeviceGetPcieLinkMaxSpeed,DeviceGetPcieReplayCounter,DeviceGetPcieSpeed,DeviceGetPcieThroughput,DeviceGetPerformanceModes,DeviceGetPerformanceState," \
	"DeviceGetPersistenceMode,DeviceGetPgpuMetadataString,DeviceGetPlatformInfo,DeviceGetPowerManagementDefaultLimit,DeviceGetPowerManagementLimit," \
	"DeviceGetPowerManagementLimitConstraints,DeviceGetPowerManagementMode,DeviceGetPowerSource,DeviceGetPowerState,DeviceGetPowerUsage,DeviceGetProcessUtilization," \
	"DeviceGetProcessesUtilizationInfo,DeviceGetRemappedRows,DeviceGetRetiredPages,DeviceGetRetiredPagesPendingStatus,DeviceGetRetiredPages_v2," \
	"DeviceGetRowRemapperHistogram,DeviceGetRunningProcessDetailList,DeviceGetSamples,DeviceGetSerial,DeviceGetSramEccErrorStatus," \
	"DeviceGetSupportedClocksEventReasons,DeviceGetSupportedClocksThrottleReasons,DeviceGetSupportedEventTypes,DeviceGetSupportedGraphicsClocks," \
	"DeviceGetSupportedMemoryClocks,DeviceGetSupportedPerformanceStates,DeviceGetSupportedVgpus,DeviceGetTargetFanSpeed,DeviceGetTemperature," \
	"DeviceGetTemperatureThreshold,DeviceGetTemperatureV,DeviceGetThermalSettings,DeviceGetTopologyCommonAncestor,DeviceGetTopologyNearestGpus," \
	"DeviceGetTotalEccErrors,DeviceGetTotalEnergyConsumption,DeviceGetUUID,DeviceGetUtilizationRates,DeviceGetVbiosVersion,DeviceGetVgpuCapabilities," \
	"DeviceGetVgpuHeterogeneousMode,DeviceGetVgpuInstancesUtilizationInfo,DeviceGetVgpuMetadata,DeviceGetVgpuProcessUtilization," \
	"DeviceGetVgpuProcessesUtilizationInfo,DeviceGetVgpuSchedulerCapabilities,DeviceGetVgpuSchedulerLog,DeviceGetVgpuSchedulerState," \
	"DeviceGetVgpuTypeCreatablePlacements,DeviceGetVgpuTypeSupportedPlacements,DeviceGetVgpuUtilization,DeviceGetViolationStatus,DeviceGetVirtualizationMode," \
	"DeviceIsMigDeviceHandle,DeviceModifyDrainState,DeviceOnSameBoard,DevicePowerSmoothingActivatePresetProfile,DevicePowerSmoothingSetState," \
	"DevicePowerSmoothingUpdatePresetProfileParam,DeviceQueryDrainState,DeviceRegisterEvents,DeviceRemoveGpu,DeviceRemoveGpu_v2,DeviceResetApplicationsClocks," \
	"DeviceResetGpuLockedClocks,DeviceResetMemoryLockedClocks,DeviceResetNvLinkErrorCounters,DeviceResetNvLinkUtilizationCounter,DeviceSetAPIRestriction," \
	"DeviceSetAccountingMode,DeviceSetApplicationsClocks,DeviceSetAutoBoostedClocksEnabled,DeviceSetClockOffsets,DeviceSetComputeMode," \
	"DeviceSetConfComputeUnprotectedMemSize,DeviceSetCpuAffinity,DeviceSetDefaultAutoBoostedClocksEnabled,DeviceSetDefaultFanSpeed_v2,DeviceSetDramEncryptionMode," \
	"DeviceSetDriverModel,DeviceSetEccMode,DeviceSetFanControlPolicy,DeviceSetFanSpeed_v2,DeviceSetGpcClkVfOffset,DeviceSetGpuLockedClocks," \
	"DeviceSetGpuOperationMode,DeviceSetMemClkVfOffset,DeviceSetMemoryLockedClocks,DeviceSetMigMode,DeviceSetNvLinkDeviceLowPowerThreshold," \
	"DeviceSetNvLinkUtilizationControl,DeviceSetNvlinkBwMode,DeviceSetPersistenceMode,DeviceSetPowerManagementLimit,DeviceSetPowerManagementLimit_v2," \
	"DeviceSetTemperatureThreshold,DeviceSetVgpuCapabilities,DeviceSetVgpuHeterogeneousMode,DeviceSetVgpuSchedulerState,DeviceSetVirtualizationMode," \
	"DeviceValidateInforom,DeviceWorkloadPowerProfileClearRequestedProfiles,DeviceWorkloadPowerProfileGetCurrentProfiles,DeviceWorkloadPowerProfileGetProfilesInfo," \
	"DeviceWorkloadPowerProfileSetRequestedProfiles,ErrorString,EventSetCreate,EventSetFree,EventSetWait,EventSetWait_v2,GetExcludedDeviceCount," \
	"GetExcludedDeviceInfoByIndex,GetVgpuCompatibility,GetVgpuDriverCapabilities,GetVgpuVersion,GpmMetricsGet,GpmMigSampleGet,GpmQueryDeviceSupport," \
	"GpmQueryIfStreamingEnabled,GpmSampleAlloc,GpmSampleFree,GpmSampleGet,GpmSetStreamingEnabled,GpuInstanceCreateComputeInstance," \
	"GpuInstanceCreateComputeInstanceWithPlacement,GpuInstanceDestroy,GpuInstanceGetActiveVgpus,GpuInstanceGetComputeInstanceById," \
	"GpuInstanceGetComputeInstancePossiblePlacements,GpuInstanceGetComputeInstanceProfileInfo,GpuInstanceGetComputeInstanceProfileInfoV," \
	"GpuInstanceGetComputeInstanceRemainingCapacity,GpuInstanceGetComputeInstances,GpuInstanceGetCreatableVgpus,GpuInstanceGetInfo," \
	"GpuInstanceGetVgpuHeterogeneousMode,GpuInstanceGetVgpuSchedulerLog,GpuInstanceGetVgpuSchedulerState,GpuInstanceGetVgpuTypeCreatablePlacements," \
	"GpuInstanceSetVgpuHeterogeneousMode,GpuInstanceSetVgpuSchedulerState,Init,InitWithFlags,Init_v2,SetVgpuVersion,Shutdown,SystemEventSetCreate," \
	"SystemEventSetFree,SystemEventSetWait,SystemGetConfComputeCapabilities,SystemGetConfComputeGpusReadyState,SystemGetConfComputeKeyRotationThresholdInfo," \
	"SystemGetConfComputeSettings,SystemGetConfComputeState,SystemGetCudaDriverVersion,SystemGetCudaDriverVersion_v2,SystemGetDriverBranch,SystemGetDriverVersion," \
	"SystemGetHicVersion,SystemGetNVMLVersion,SystemGetNvlinkBwMode,SystemGetProcessName,SystemGetTopologyGpuSet,SystemRegisterEvents," \
	"SystemSetConfComputeGpusReadyState,SystemSetConfComputeKeyRotationThresholdInfo,SystemSetNvlinkBwMode,UnitGetCount,UnitGetDevices,UnitGetFanSpeedInfo," \
	"UnitGetHandleByIndex,UnitGetLedState,UnitGetPsuInfo,UnitGetTemperature,UnitGetUnitInfo,UnitSetLedState,VgpuInstanceClearAccountingPids," \
	"VgpuInstanceGetAccountingMode,VgpuInstanceGetAccountingPids,VgpuInstanceGetAccountingStats,VgpuInstanceGetEccMode,VgpuInstanceGetEncoderCapacity," \
	"VgpuInstanceGetEncoderSessions,VgpuInstanceGetEncoderStats,VgpuInstanceGetFBCSessions,VgpuInstanceGetFBCStats,VgpuInstanceGetFbUsage," \
	"VgpuInstanceGetFrameRateLimit,VgpuInstanceGetGpuInstanceId,VgpuInstanceGetGpuPciId,VgpuInstanceGetLicenseInfo,VgpuInstanceGetLicenseInfo_v2," \
	"VgpuInstanceGetLicenseStatus,VgpuInstanceGetMdevUUID,VgpuInstanceGetMetadata,VgpuInstanceGetPlacementId,VgpuInstanceGetRuntimeStateSize,VgpuInstanceGetType," \
	"VgpuInstanceGetUUID,VgpuInstanceGetVmDriverVersion,VgpuInstanceGetVmID,VgpuInstanceSetEncoderCapacity,VgpuTypeGetBAR1Info,VgpuTypeGetCapabilities," \
	"VgpuTypeGetClass,VgpuTypeGetDeviceID,VgpuTypeGetFbReservation,VgpuTypeGetFrameRateLimit,VgpuTypeGetFramebufferSize,VgpuTypeGetGpuInstanceProfileId," \
	"VgpuTypeGetGspHeapSize,VgpuTypeGetLicense,VgpuTypeGetMaxInstances,VgpuTypeGetMaxInstancesPerGpuInstance,VgpuTypeGetMaxInstancesPerVm,VgpuTypeGetName," \
	"VgpuTypeGetNumDisplayHeads,VgpuTypeGetResolution"

#ifdef __x86_64__
#define JUMP "jmp *.Lslot_\\n(%rip)\n"
#else
#define JUMP "adrp x16, .Lslot_\\n\nldr x16, [x16, :lo12:.Lslot_\\n]\nbr x16\n"
#endif

__asm__(".section .data.gpubuild_nvml, \"aw\"\n.balign 8\ngpubuild_nvml_slots:\n"
	".section .rodata.gpubuild_nvml, \"a\"\ngpubuild_nvml_names:\n"
	".irp n," NAMES "\n"
	".text\n.globl nvml\\n\n.hidden nvml\\n\n.type nvml\\n, %function\nnvml\\n:\n" JUMP
	".section .data.gpubuild_nvml\n.Lslot_\\n: .quad gpubuild_nvml_absent\n"
	".section .rodata.gpubuild_nvml\n.asciz \"nvml\\n\"\n"
	".endr\n"
	".byte 0\n.text\n");

extern void *gpubuild_nvml_slots[];
extern const char gpubuild_nvml_names[];

// gpubuild_nvml_absent is what a function that the library lacks answers: NVML_ERROR_FUNCTION_NOT_FOUND.
int gpubuild_nvml_absent(void) { return 13; }

static const char *no_text(int code) {
	(void)code;
	return "NVML gives no text";
}

// gpubuild_nvml_open loads the library; it returns the loader's reason where that fails, else NULL.
const char *gpubuild_nvml_open(const char *library) {
	void *handle = dlopen(library, RTLD_LAZY | RTLD_GLOBAL), **slot = gpubuild_nvml_slots;
	if (!handle)
		return dlerror();
	for (const char *name = gpubuild_nvml_names; *name; name += strlen(name) + 1, slot++) {
		void *found = dlsym(handle, name);
		*slot = found ? found : !strcmp(name, "nvmlErrorString") ? (void *)no_text : (void *)gpubuild_nvml_absent;
	}
	return NULL;
}
