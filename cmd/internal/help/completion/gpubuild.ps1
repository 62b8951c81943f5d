# PowerShell completion for gpubuild. In $PROFILE: gpubuild completion pwsh | Out-String | Invoke-Expression
Register-ArgumentCompleter -Native -CommandName gpubuild -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements | Select-Object -Skip 1 | Where-Object { $_.Extent.EndOffset -lt $cursorPosition } | ForEach-Object { $_.ToString() })
    # An empty word would be dropped on its way to a native program.
    $typed = if ($wordToComplete) { $wordToComplete } else { "''" }
    foreach ($line in @(gpubuild completion words -- @words $typed)) {
        if ($line -eq ':files') {
            Get-ChildItem -Path "$wordToComplete*" -Name -ErrorAction SilentlyContinue | ForEach-Object {
                [System.Management.Automation.CompletionResult]::new($_, $_, 'ProviderItem', $_)
            }
            continue
        }
        $word, $about = $line -split "`t", 2
        if (-not $about) { $about = $word }
        [System.Management.Automation.CompletionResult]::new($word, $word, 'ParameterValue', $about)
    }
}
